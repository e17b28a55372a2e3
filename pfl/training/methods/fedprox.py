"""FedProx [Li et al., arXiv 1812.06127]: everything is shared, with a proximal term."""

from torch import nn

from pfl.training.algorithm import Algorithm, RoundContext
from pfl.training.methods.common import constant, proximal
from pfl.training.sgd import descend
from pfl.training.split import nothing_private


def fedprox(model: nn.Module, mu: float) -> Algorithm:
    """Everything is shared; clients minimize CE + μ/2 ‖w − w_0‖² (its Section 3, equation (2)).

    w_0 are the weights downloaded; only parameters count, not running statistics.
    """

    def training(model: nn.Module, context: RoundContext) -> dict[str, float]:
        loss = proximal(model.parameters(), mu)
        return descend(model, model.parameters(), context, loss)

    return constant("fedprox", nothing_private(model.state_dict()), training)
