"""FedAvg [McMahan et al., AISTATS 2017]: everything is shared."""

from torch import nn

from pfl.training.algorithm import Algorithm
from pfl.training.methods.common import constant
from pfl.training.split import nothing_private


def fedavg(model: nn.Module) -> Algorithm:
    """Everything is shared."""
    return constant("fedavg", nothing_private(model.state_dict()))
