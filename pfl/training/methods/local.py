"""Local training, the baseline without communication: everything is private."""

from torch import nn

from pfl.training.algorithm import Algorithm
from pfl.training.methods.common import constant
from pfl.training.split import all_private


def local(model: nn.Module) -> Algorithm:
    """Nothing is shared: each client trains alone, from the common initial weights."""
    return constant("local", all_private(model.state_dict()))
