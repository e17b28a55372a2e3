"""pFedMe: clients minimize Moreau envelopes, whose minimizers are their own models.

Dinh, Tran and Nguyen, "Personalized federated learning with Moreau envelopes", arXiv 2006.08848
(NeurIPS 2020). With F_i(w) = min_θ f_i(θ) + λ/2 ‖θ − w‖² (its equation (3)), each local step of its
Algorithm 1 takes a batch, approaches the minimizer θ̃ by K gradient steps, and moves

    w_i ← w_i − η λ (w_i − θ̃_i)

since λ(w − θ̂(w)) is the gradient of F_i. The server averages the w_i (β = 1 there).
"""

from copy import deepcopy

import torch
from torch import nn

from pfl.training.algorithm import Algorithm, RoundContext
from pfl.training.methods.common import attracted, constant, recall
from pfl.training.sgd import descend
from pfl.training.split import nothing_private


def pfedme(
    model: nn.Module, attraction: float, inner_steps: int, learning_rate: float
) -> Algorithm:
    """λ = ``attraction``, K = ``inner_steps``, η = ``learning_rate`` of the shared model.

    The round's own learning rate is that of the inner steps. θ begins each round as the weights
    downloaded and goes on from batch to batch, as in the code released with the paper. A client
    uses its last θ. With K = 1 and ηλ = 1 the shared model is FedAvg's; ηλ is at most 1.
    """
    share = attraction * learning_rate

    def training(model: nn.Module, context: RoundContext) -> dict[str, float]:
        personal = deepcopy(model)
        shared = [weight.detach() for weight in model.parameters()]

        @torch.no_grad()
        def move_shared() -> None:
            for weight, theta in zip(shared, personal.parameters(), strict=True):
                weight.lerp_(theta, share)

        terms = descend(
            personal, personal.parameters(), context,
            attracted(shared, attraction), after_batch=move_shared, repeats=inner_steps,
        )  # fmt: skip
        for own, theirs in zip(model.buffers(), personal.buffers(), strict=True):
            own.copy_(theirs)
        context.memory.update(personal.state_dict())
        return terms

    return constant("pfedme", nothing_private(model.state_dict()), training, recall)
