"""APFL: each client uses a mixture of the shared model and one of its own.

Deng, Kamani and Mahdavi, "Adaptive personalized federated learning", arXiv 2003.13461. Client i
uses v̄_i = α_i v_i + (1 − α_i) w (its Section 3). In each local step of its Algorithm 1, with
w trained as in FedAvg,

    w_i ← w_i − η ∇f_i(w_i)
    v_i ← v_i − η ∇_v f_i(v̄_i)
    α_i ← α_i − η ⟨v_i − w_i, ∇f_i(v̄_i)⟩      (if adaptive; kept in [0, 1])

all three gradients at the same point and on the same batch. α = 0 is FedAvg, α = 1 local training.
"""

from copy import deepcopy

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call

from pfl.training.algorithm import Algorithm, RoundContext
from pfl.training.methods.common import constant
from pfl.training.sgd import Loss, Value, cross_entropy, descend
from pfl.training.split import nothing_private

ALPHA, OWN = "alpha", "own/"  # in a client's memory: α_i, and the entries of v_i


def apfl(model: nn.Module, alpha: float, adaptive: bool) -> Algorithm:
    """FedAvg's shared model w; v_i and α_i, which begins as ``alpha``, are the client's memory.

    v_i begins as the w of the client's first round. Momentum and weight decay are those of the
    shared training; α has neither.
    """

    def training(model: nn.Module, context: RoundContext) -> dict[str, float]:
        own, share = _remembered(model, context, alpha)
        share.requires_grad_(adaptive)

        def adapt() -> None:
            if share.grad is not None:
                share.data.sub_(context.learning_rate * share.grad).clamp_(0, 1)
                share.grad = None

        parameters = [*model.parameters(), *own.parameters()]
        loss = _both(own, share)
        terms = descend(model, parameters, context, loss, after_batch=adapt)
        kept = {f"{OWN}{name}": value for name, value in own.state_dict().items()}
        context.memory.update(kept, **{ALPHA: share.detach()})
        return terms

    def mix(model: nn.Module, context: RoundContext) -> dict[str, float]:
        """Use v̄_i; statistics of normalization are those seen by it."""
        own, share = _remembered(model, context, alpha)
        own.load_state_dict(_mixture(own, model, share), strict=False)
        model.load_state_dict(own.state_dict())
        return {}

    return constant("apfl", nothing_private(model.state_dict()), training, mix)


def _remembered(
    model: nn.Module, context: RoundContext, alpha: float
) -> tuple[nn.Module, Float[Tensor, ""]]:
    """v_i and α_i; at the client's first round the model downloaded, and ``alpha``."""
    own = deepcopy(model)
    kept = {name: value for name, value in context.memory.items() if name != ALPHA}
    own.load_state_dict({name.removeprefix(OWN): w for name, w in kept.items()} or own.state_dict())
    first = torch.tensor(alpha, device=next(model.parameters()).device)
    return own, context.memory.get(ALPHA, first).clone()


def _mixture(own: nn.Module, model: nn.Module, share: Float[Tensor, ""]) -> dict[str, Tensor]:
    """α v + (1 − α) w by parameter, with no gradient for w."""
    shared = dict(model.named_parameters())
    return {
        name: share * value + (1 - share) * shared[name].detach()
        for name, value in own.named_parameters()
    }


def _both(own: nn.Module, share: Float[Tensor, ""]) -> Loss:
    """f(w) + f(v̄): the gradient of the first is w's, that of the second v's and α's."""
    own.train()

    def loss(model: nn.Module, inputs: Float[Tensor, "b ..."], label: Int[Tensor, " b"]) -> Value:
        value, terms = cross_entropy(model, inputs, label)
        logits = functional_call(own, _mixture(own, model, share), (inputs,))
        mixed = nn.functional.cross_entropy(logits, label)
        own_terms = {"mixture-loss": mixed.detach(), ALPHA: share.detach().clone()}
        return value + mixed, terms | own_terms

    return loss
