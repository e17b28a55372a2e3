"""What methods have in common: constant splits, training of a part, attraction, fine-tuning."""

import math
from collections.abc import Callable, Iterable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pfl.data.tensors.client_data import ClientData
from pfl.errors import InputError
from pfl.training.algorithm import Algorithm, LocalTraining, RoundContext
from pfl.training.sgd import Terms, cross_entropy, descend, train
from pfl.training.split import Split


def at_least(parameter: str, value: int | float, low: int) -> None:
    """Refuse a setting that is below ``low`` or not finite.

    Raises:
        InputError: it is.
    """
    if not low <= value < math.inf:
        raise InputError(f"The setting {parameter} is {value}: choose a number from {low} upwards.")


def constant(name: str, split: Split, training: LocalTraining = train) -> Algorithm:
    """A method whose split is the same in every round."""
    return Algorithm(name, lambda number, rounds: split, training)


def train_part(
    model: nn.Module,
    data: ClientData,
    context: RoundContext,
    generator: torch.Generator,
    moving: Callable[[str], bool],
) -> dict[str, float]:
    """Train the parameters whose names are ``moving``; for the others no gradient is computed."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(moving(name))
    chosen = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return descend(model, chosen, data, context, generator, cross_entropy)


def proximal(
    anchors: Iterable[Tensor], weight: float
) -> Callable[[nn.Module, Tensor, Tensor], tuple[Tensor, Terms]]:
    """CE + weight/2 ‖w − anchors‖², the anchors as they are now."""
    return attracted([anchor.detach().clone() for anchor in anchors], weight)


def attracted(
    anchors: Sequence[Tensor], weight: float
) -> Callable[[nn.Module, Tensor, Tensor], tuple[Tensor, Terms]]:
    """CE + weight/2 ‖w − anchors‖², the anchors as they are when the loss is computed."""

    def loss(
        model: nn.Module, inputs: Float[Tensor, "b ..."], label: Int[Tensor, " b"]
    ) -> tuple[Float[Tensor, ""], Terms]:
        value, terms = cross_entropy(model, inputs, label)
        pairs = zip(model.parameters(), anchors, strict=True)
        distance = torch.stack([(w - anchor.detach()).square().sum() for w, anchor in pairs]).sum()
        return value + weight / 2 * distance, terms | {"distance": distance.detach()}

    return loss


def recall(
    model: nn.Module, data: ClientData, context: RoundContext, generator: torch.Generator
) -> dict[str, float]:
    """Use the model in the client's memory, if it has one yet."""
    model.load_state_dict(context.memory or model.state_dict())
    return {}


def fine_tuning(epochs: int, learning_rate: float) -> LocalTraining:
    """Plain training of the whole model at a learning rate of its own, the same in every round."""

    def tune(
        model: nn.Module, data: ClientData, context: RoundContext, generator: torch.Generator
    ) -> dict[str, float]:
        tuned = context.adjusted(epochs=epochs, lr=learning_rate, lr_decay=1.0)
        return train(model, data, tuned, generator)

    return tune
