"""FedRep [Collins et al., arXiv 2102.07078]: private top layers, trained before the rest."""

from dataclasses import replace

from torch import nn

from pfl.training.algorithm import Algorithm, RoundContext
from pfl.training.layers import end_layers
from pfl.training.methods.common import constant, train_part
from pfl.training.split import private_where


def fedrep(model: nn.Module, private_layers: int, head_epochs: int) -> Algorithm:
    """FedPer's split; the private head is trained first, then the shared body with the head fixed.

    Its Algorithm 1: ``head_epochs`` passes for the head, the round's epochs for the body.

    Raises:
        SettingError: the network has not so many layers.
    """
    head = end_layers(model, private_layers, True, "private-layers")

    def training(model: nn.Module, context: RoundContext) -> dict[str, float]:
        before = replace(context, epochs=head_epochs)
        first = train_part(model, before, head.__contains__)
        body = train_part(model, context, lambda name: name not in head)
        return body | {"head-loss": first["loss"]}

    return constant("fedrep", private_where(model.state_dict(), head.__contains__), training)
