"""FedAvg with fine-tuning: each client trains the shared model a little before it uses it."""

from dataclasses import replace

from torch import nn

from pfl.training.algorithm import Algorithm
from pfl.training.methods.common import AtLeast0, AtLeast1, fine_tuning
from pfl.training.methods.fedavg import fedavg


def fedavg_ft(model: nn.Module, epochs: AtLeast1, learning_rate: AtLeast0) -> Algorithm:
    """FedAvg; before it is used, each client trains the shared model on its own data.

    What is fine-tuned is used and tested, not kept: each round begins with the shared model.
    """
    return replace(fedavg(model), name="fedavg-ft", personalize=fine_tuning(epochs, learning_rate))
