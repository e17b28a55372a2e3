"""FedBN [Li et al., arXiv 2102.07623]: normalization layers are private."""

from torch import nn

from pfl.errors import InputError
from pfl.training.algorithm import Algorithm
from pfl.training.methods.common import constant
from pfl.training.split import private_where

NORMALIZATION = (
    nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm, nn.InstanceNorm2d, nn.LayerNorm,
)  # fmt: skip


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
            "FedAvg: take fedbn out of compare.methods, or set rounds.network to a ResNet."
        )
    return constant("fedbn", private_where(model.state_dict(), names.__contains__))
