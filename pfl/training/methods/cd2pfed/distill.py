"""Cyclic distillation between the two parts of a decoupled network."""

import torch
from jaxtyping import Float
from torch import Tensor


def cyclic_distillation(
    private: Float[Tensor, "batch classes"],
    shared: Float[Tensor, "batch classes"],
    detach: bool = False,
) -> Float[Tensor, ""]:
    """L_CD = ½ (KL(ỹ^L ‖ ỹ^G) + KL(ỹ^G ‖ ỹ^L)), CD2-pFed [arXiv 2204.03880].

    ỹ^L and ỹ^G are the softmax, at temperature 1, of the private and the shared part's class
    scores; the mean is over the batch. It is at least 0, and 0 only for equal predictions.

    With ``detach`` the first distribution of each divergence, the one that teaches, is taken as
    given. The paper's equation has no such thing: gradients go both ways.

    Notes:
        With a = log ỹ^L and b = log ỹ^G the two divergences together are Σ (eᵃ − eᵇ)(a − b).
    """
    exact = torch.promote_types(private.dtype, torch.float32)  # also of scores in bfloat16
    a, b = private.log_softmax(1, exact), shared.log_softmax(1, exact)
    if detach:
        given_a, given_b = a.detach(), b.detach()
        terms = given_a.exp() * (given_a - b) + given_b.exp() * (given_b - a)
    else:
        terms = (a.exp() - b.exp()) * (a - b)
    return terms.sum(1).mean() / 2
