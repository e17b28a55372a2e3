"""Ditto [Li et al., arXiv 2012.04221]: FedAvg, and a personal model drawn to the shared one."""

from copy import deepcopy
from dataclasses import replace

import torch
from torch import nn

from pfl.training.algorithm import Algorithm, RoundContext
from pfl.training.methods.common import constant, proximal, recall
from pfl.training.sgd import descend, train
from pfl.training.split import nothing_private


def ditto(model: nn.Module, attraction: float) -> Algorithm:
    """FedAvg, and beside it a personal model v of each client that is drawn to the shared one.

    Its Algorithm 1: v minimizes CE(v) + λ/2 ‖v − w_0‖² where w_0 are the weights just downloaded;
    λ = 0 is local training. v is in the client's memory, begins as w_0 of the client's first
    round, and sees the same batches as the shared model.
    """

    def training(model: nn.Module, context: RoundContext) -> dict[str, float]:
        twin = torch.Generator().set_state(context.generator.get_state())
        personal = deepcopy(model)
        loss = proximal(model.parameters(), attraction)
        personal.load_state_dict(context.memory or model.state_dict())
        terms = train(model, context)
        again = replace(context, generator=twin)
        own = descend(personal, personal.parameters(), again, loss)
        context.memory.update(personal.state_dict())
        return terms | {f"personal-{name}": value for name, value in own.items()}

    return constant("ditto", nothing_private(model.state_dict()), training, recall)
