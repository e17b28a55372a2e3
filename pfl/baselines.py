"""The methods that CD2-pFed is compared with, each a choice of what is private and how to train.

| method | paper | private | training |
|---|---|---|---|
| FedAvg | McMahan et al., AISTATS 2017 | nothing | SGD |
| Local | | everything | SGD |
| FedPer | Arivazhagan et al., arXiv 1912.00818 | the top layers | SGD |
| LG-Fed | Liang et al., arXiv 2001.01523 | all but the top (or bottom) layers | SGD |
| FedRep | Collins et al., arXiv 2102.07078 | the top layers | these first, then the rest |
| FedBN | Li et al., arXiv 2102.07623 | normalization layers | SGD |
| FedProx | Li et al., arXiv 1812.06127 | nothing | SGD with a proximal term |
| Ditto | Li et al., arXiv 2012.04221 | nothing | SGD, and a personal model beside it |
| FedAvg-ft | | nothing | SGD; fine-tuned by each client before use |

FedBABU, APFL and pFedMe have files of their own.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from enum import StrEnum

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pfl.algorithm import Algorithm, LocalTraining, RoundContext
from pfl.client_data import ClientData
from pfl.errors import InputError
from pfl.layers import end_layers
from pfl.local import Terms, cross_entropy, descend, train
from pfl.split import Split, all_private, nothing_private, private_where


class End(StrEnum):
    """Which end of a network: ``TOP`` has the classifier, ``BOTTOM`` sees the images."""

    TOP = "top"
    BOTTOM = "bottom"


NORMALIZATION = (
    nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm, nn.InstanceNorm2d, nn.LayerNorm,
)  # fmt: skip


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


def fedavg(model: nn.Module) -> Algorithm:
    """Everything is shared."""
    return constant("fedavg", nothing_private(model.state_dict()))


def local(model: nn.Module) -> Algorithm:
    """Nothing is shared: each client trains alone, from the common initial weights."""
    return constant("local", all_private(model.state_dict()))


def fedper(model: nn.Module, private_layers: int) -> Algorithm:
    """The top ``private_layers`` layers are private; 1 is the classifier alone (its Section 3).

    Raises:
        InputError: the network has not so many layers.
    """
    top = end_layers(model, private_layers, True, "fedper.private-layers")
    return constant("fedper", private_where(model.state_dict(), top.__contains__))


def lg_fed(model: nn.Module, shared_layers: int, shared_end: End) -> Algorithm:
    """Only ``shared_layers`` layers are shared, those at the ``top`` or at the ``bottom``.

    The paper's clients have private representations and share the top (its Section 3). The code
    released with it shares the bottom, the convolutions, and keeps the linear layers.

    Raises:
        InputError: the network has not so many layers.
    """
    shared = end_layers(model, shared_layers, shared_end == End.TOP, "lg-fed.shared-layers")
    split = private_where(model.state_dict(), lambda name: name not in shared)
    return constant("lg-fed", split)


def fedrep(model: nn.Module, private_layers: int, head_epochs: int) -> Algorithm:
    """FedPer's split; the private head is trained first, then the shared body with the head fixed.

    Its Algorithm 1: ``head_epochs`` passes for the head, the round's epochs for the body.

    Raises:
        InputError: the network has not so many layers, or a number is out of range.
    """
    at_least("fedrep.head-epochs", head_epochs, 1)
    head = end_layers(model, private_layers, True, "fedrep.private-layers")

    def training(
        model: nn.Module, data: ClientData, context: RoundContext, generator: torch.Generator
    ) -> dict[str, float]:
        first = train_part(
            model, data, context.adjusted(epochs=head_epochs), generator, head.__contains__
        )
        body = train_part(model, data, context, generator, lambda name: name not in head)
        return body | {"head-loss": first["loss"]}

    return constant("fedrep", private_where(model.state_dict(), head.__contains__), training)


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


def fedbn(model: nn.Module) -> Algorithm:
    """Normalization layers, their weights and statistics, are private (its Section 3).

    Raises:
        InputError: the network has none.
    """
    names = frozenset(
        f"{prefix}.{key}"
        for prefix, module in model.named_modules()
        if isinstance(module, NORMALIZATION)
        for key in module.state_dict()
    )
    if not names:
        raise InputError(
            "FedBN keeps normalization layers private, and this network has none, so it would be "
            "FedAvg: take fedbn out of train, or choose a network with normalization (a ResNet)."
        )
    return constant("fedbn", private_where(model.state_dict(), names.__contains__))


def fedprox(model: nn.Module, mu: float) -> Algorithm:
    """Everything is shared; clients minimize CE + μ/2 ‖w − w_0‖² (its Section 3, equation (2)).

    w_0 are the weights downloaded; only parameters count, not running statistics.

    Raises:
        InputError: μ is negative or not finite.
    """
    at_least("fedprox.mu", mu, 0)

    def training(
        model: nn.Module, data: ClientData, context: RoundContext, generator: torch.Generator
    ) -> dict[str, float]:
        loss = proximal(model.parameters(), mu)
        return descend(model, model.parameters(), data, context, generator, loss)

    return constant("fedprox", nothing_private(model.state_dict()), training)


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


def ditto(model: nn.Module, attraction: float) -> Algorithm:
    """FedAvg, and beside it a personal model v of each client that is drawn to the shared one.

    Its Algorithm 1: v minimizes CE(v) + λ/2 ‖v − w_0‖² where w_0 are the weights just downloaded;
    λ = 0 is local training. v is in the client's memory, begins as w_0 of the client's first
    round, and sees the same batches as the shared model.

    Raises:
        InputError: λ is negative or not finite.
    """
    at_least("ditto.attraction", attraction, 0)

    def training(
        model: nn.Module, data: ClientData, context: RoundContext, generator: torch.Generator
    ) -> dict[str, float]:
        twin = torch.Generator().set_state(generator.get_state())
        personal = deepcopy(model)
        loss = proximal(model.parameters(), attraction)
        personal.load_state_dict(context.memory or model.state_dict())
        terms = train(model, data, context, generator)
        own = descend(personal, personal.parameters(), data, context, twin, loss)
        context.memory.update(personal.state_dict())
        return terms | {f"personal-{name}": value for name, value in own.items()}

    return replace(
        constant("ditto", nothing_private(model.state_dict()), training), personalize=recall
    )


def recall(
    model: nn.Module, data: ClientData, context: RoundContext, generator: torch.Generator
) -> dict[str, float]:
    """Use the model in the client's memory, if it has one yet."""
    model.load_state_dict(context.memory or model.state_dict())
    return {}


def fedavg_ft(model: nn.Module, epochs: int, learning_rate: float) -> Algorithm:
    """FedAvg; before it is used, each client trains the shared model on its own data.

    What is fine-tuned is used and tested, not kept: each round begins with the shared model.

    Raises:
        InputError: a number is out of range.
    """
    at_least("fedavg-ft.epochs", epochs, 1)
    at_least("fedavg-ft.learning-rate", learning_rate, 0)

    return replace(fedavg(model), name="fedavg-ft", personalize=fine_tuning(epochs, learning_rate))


def fine_tuning(epochs: int, learning_rate: float) -> LocalTraining:
    """Plain training of the whole model at a learning rate of its own, the same in every round."""

    def tune(
        model: nn.Module, data: ClientData, context: RoundContext, generator: torch.Generator
    ) -> dict[str, float]:
        tuned = context.adjusted(epochs=epochs, lr=learning_rate, lr_decay=1.0)
        return train(model, data, tuned, generator)

    return tune
