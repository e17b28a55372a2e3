"""FedPer [Arivazhagan et al., arXiv 1912.00818]: the top layers are private."""

from torch import nn

from pfl.training.algorithm import Algorithm
from pfl.training.layers import end_layers
from pfl.training.methods.common import constant
from pfl.training.split import private_where


def fedper(model: nn.Module, private_layers: int) -> Algorithm:
    """The top ``private_layers`` layers are private; 1 is the classifier alone (its Section 3).

    Raises:
        SettingError: the network has not so many layers.
    """
    top = end_layers(model, private_layers, True, "private-layers")
    return constant("fedper", private_where(model.state_dict(), top.__contains__))
