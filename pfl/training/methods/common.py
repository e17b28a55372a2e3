"""What methods have in common: constant splits, training of a part, attraction, fine-tuning."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pfl.training.algorithm import Algorithm, LocalTraining, RoundContext
from pfl.training.sgd import Loss, Value, cross_entropy, descend, train
from pfl.training.split import Split


def constant(
    name: str,
    split: Split,
    training: LocalTraining = train,
    personalize: LocalTraining | None = None,
) -> Algorithm:
    """A method whose split is the same in every round."""
    return Algorithm(name, lambda number, rounds: split, training, personalize)


def train_part(
    model: nn.Module, context: RoundContext, moving: Callable[[str], bool]
) -> dict[str, float]:
    """Train the parameters whose names are ``moving``; for the others no gradient is computed."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(moving(name))
    chosen = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return descend(model, chosen, context, cross_entropy)


def proximal(anchors: Iterable[Tensor], weight: float) -> Loss:
    """CE + weight/2 ‖w − anchors‖², the anchors as they are now."""
    return attracted([anchor.detach().clone() for anchor in anchors], weight)


def attracted(anchors: Sequence[Tensor], weight: float) -> Loss:
    """CE + weight/2 ‖w − anchors‖², the anchors as they are when the loss is computed."""

    def loss(model: nn.Module, inputs: Float[Tensor, "b ..."], label: Int[Tensor, " b"]) -> Value:
        value, terms = cross_entropy(model, inputs, label)
        pairs = zip(model.parameters(), anchors, strict=True)
        distance = torch.stack([(w - anchor.detach()).square().sum() for w, anchor in pairs]).sum()
        return value + weight / 2 * distance, terms | {"distance": distance.detach()}

    return loss


def recall(model: nn.Module, context: RoundContext) -> dict[str, float]:
    """Use the model in the client's memory, if it has one yet."""
    model.load_state_dict(context.memory or model.state_dict())
    return {}


def fine_tuning(epochs: int, learning_rate: float) -> LocalTraining:
    """Plain training of the whole model at a learning rate of its own, the same in every round."""

    def tune(model: nn.Module, context: RoundContext) -> dict[str, float]:
        return train(model, replace(context, epochs=epochs, learning_rate=learning_rate))

    return tune
