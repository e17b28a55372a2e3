"""FedAvg with fine-tuning: each client trains the shared model a little before it uses it."""

from torch import nn

from pfl.training.algorithm import Algorithm
from pfl.training.methods.common import constant, fine_tuning
from pfl.training.split import nothing_private


def fedavg_ft(model: nn.Module, epochs: int, learning_rate: float) -> Algorithm:
    """FedAvg; before it is used, each client trains the shared model on its own data.

    What is fine-tuned is used and tested, not kept: each round begins with the shared model.
    """
    tune = fine_tuning(epochs, learning_rate)
    return constant("fedavg-ft", nothing_private(model.state_dict()), personalize=tune)
