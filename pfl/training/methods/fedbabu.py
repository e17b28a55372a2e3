"""FedBABU: the body is trained together, under a head that nobody trains until the end.

Oh, Kim and Yun, "FedBABU: Toward enhanced representation for federated image classification",
arXiv 2106.06042 (ICLR 2022), Algorithm 1. All clients begin with the same random head. In the
rounds they update and share the body alone; before it is used, each client fine-tunes the whole
model on its own samples (its Section 5).
"""

from torch import nn

from pfl.training.algorithm import Algorithm, RoundContext
from pfl.training.layers import end_layers
from pfl.training.methods.common import constant, fine_tuning, train_part
from pfl.training.split import private_where


def fedbabu(model: nn.Module, head_layers: int, epochs: int, learning_rate: float) -> Algorithm:
    """The top ``head_layers`` layers stay as they began; ``epochs`` of fine-tuning before use.

    Being the same everywhere and never changed, the head is not sent.

    Raises:
        SettingError: the network has no layer below the head.
    """
    head = end_layers(model, head_layers, True, "head-layers")

    def training(model: nn.Module, context: RoundContext) -> dict[str, float]:
        return train_part(model, context, lambda name: name not in head)

    split = private_where(model.state_dict(), head.__contains__)
    return constant("fedbabu", split, training, fine_tuning(epochs, learning_rate))
