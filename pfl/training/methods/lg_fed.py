"""LG-Fed [Liang et al., arXiv 2001.01523]: all but the layers at one end are private."""

from torch import nn

from pfl.training.algorithm import Algorithm
from pfl.training.layers import end_layers
from pfl.training.methods.common import constant
from pfl.training.methods.settings import End
from pfl.training.split import private_where


def lg_fed(model: nn.Module, shared_layers: int, shared_end: End) -> Algorithm:
    """Only ``shared_layers`` layers are shared, those at the ``top`` or at the ``bottom``.

    The paper's clients have private representations and share the top (its Section 3). The code
    released with it shares the bottom, the convolutions, and keeps the linear layers.

    Raises:
        SettingError: the network has not so many layers.
    """
    shared = end_layers(model, shared_layers, shared_end == End.TOP, "shared-layers")
    split = private_where(model.state_dict(), lambda name: name not in shared)
    return constant("lg-fed", split)
