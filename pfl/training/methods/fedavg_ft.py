"""FedAvg with fine-tuning: each client trains the shared model a little before it uses it."""

from dataclasses import replace

from torch import nn

from pfl.training.algorithm import Algorithm
from pfl.training.methods.common import at_least, fine_tuning
from pfl.training.methods.fedavg import fedavg


def fedavg_ft(model: nn.Module, epochs: int, learning_rate: float) -> Algorithm:
    """FedAvg; before it is used, each client trains the shared model on its own data.

    What is fine-tuned is used and tested, not kept: each round begins with the shared model.

    Raises:
        InputError: a number is out of range.
    """
    at_least("fedavg-ft.epochs", epochs, 1)
    at_least("fedavg-ft.learning-rate", learning_rate, 0)

    return replace(fedavg(model), name="fedavg-ft", personalize=fine_tuning(epochs, learning_rate))
