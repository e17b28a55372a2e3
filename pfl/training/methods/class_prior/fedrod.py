"""FedRoD: one generic predictor for all, and beside it a head of each client's own.

Chen and Chao, "On bridging generic and personalized federated learning for image classification",
arXiv 2107.00778 (ICLR 2022). The features z(x) and the generic head G are shared and trained with
the balanced softmax of Ren et al. (its Section 4.2): where a client has n_c samples of class c,

    L_G = −log softmax(G z + log n)_y,

so that how often it has a class does not teach G to expect it. The client's own head P, linear on
the same features, adds to the generic scores what its own prior and its own samples ask for,

    L_P = −log softmax(G z + P z)_y,      with no gradient for z and G,

and the client uses G z + P z, which is one linear head. On others' samples it uses G alone.
"""

from copy import deepcopy
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from pfl.training.algorithm import Algorithm, RoundContext
from pfl.training.layers import body_and_classifier
from pfl.training.methods.common import constant
from pfl.training.sgd import Loss, Value, descend
from pfl.training.split import nothing_private


def fedrod(model: nn.Module) -> Algorithm:
    """Everything is shared but P, which begins as 0 and is in the client's memory alone.

    Both heads learn from the same batches in the same steps, with the settings of the round. With a
    linear network, a head on features, z is the input and P a local linear head.

    Notes:
        The paper's other P, made from the client's class counts by a shared network, is not here.
    """

    def training(model: nn.Module, context: RoundContext) -> dict[str, float]:
        own = own_head(model, context)
        classes = body_and_classifier(model)[1].out_features
        loss = both_losses(own, balance(context.data.label, classes))
        terms = descend(model, [*model.parameters(), *own.parameters()], context, loss)
        context.memory.update(own.state_dict())
        return terms

    def add(model: nn.Module, context: RoundContext) -> dict[str, float]:
        """G + P in the place of G."""
        generic = body_and_classifier(model)[1]
        with torch.no_grad():
            for weight, own in zip(
                generic.parameters(), own_head(model, context).parameters(), strict=True
            ):
                weight.add_(own)
        return {}

    method = constant("fedrod", nothing_private(model.state_dict()), training, add)
    return replace(method, for_own_samples=True)


def own_head(model: nn.Module, context: RoundContext) -> nn.Linear:
    """P of the client; 0 before its first round."""
    head = deepcopy(body_and_classifier(model)[1])
    zeros = {name: torch.zeros_like(value) for name, value in head.state_dict().items()}
    head.load_state_dict(context.memory or zeros)
    return head


def balance(label: Int[Tensor, " n"], classes: int) -> Float[Tensor, " d"]:
    """Log n_c d/N: log n_c but for a constant, and 0 where all classes are as frequent.

    −∞ for a class that the client has not, of which the balanced softmax then tells nothing.
    """
    count = torch.bincount(label, minlength=classes).double()
    return (count * classes / len(label)).log().float()


def both_losses(own: nn.Linear, balanced: Float[Tensor, " d"]) -> Loss:
    """L_G + L_P: the gradient of the first is that of z and G, of the second that of P."""

    def loss(model: nn.Module, inputs: Float[Tensor, "b ..."], label: Int[Tensor, " b"]) -> Value:
        body, generic = body_and_classifier(model)
        features = body(inputs)
        logits = generic(features)
        value = F.cross_entropy(logits + balanced, label)
        personal = F.cross_entropy(logits.detach() + own(features.detach()), label)
        hits = (logits.detach().argmax(1) == label).float().mean()
        terms = {"loss": value.detach(), "accuracy": hits, "personal-loss": personal.detach()}
        return value + personal, terms

    return loss
