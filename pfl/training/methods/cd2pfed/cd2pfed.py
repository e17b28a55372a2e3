"""CD2-pFed: decoupled channels, trained with cyclic distillation and averaged over time.

"CD2-pFed: Cyclic Distillation-guided Channel Decoupling for Model Personalization in Federated
Learning", arXiv 2204.03880. Each client's network has private and shared channels
(:mod:`pfl.training.methods.cd2pfed.channels`) and minimizes, on its own data,

    L = CE(ỹ, y) + λ L_CD

with ỹ the joint prediction and L_CD of :mod:`pfl.training.methods.cd2pfed.distill` between its two
parts. Three pieces can be switched off one by one, as in the paper's ablation:

- LI, the linear increase of the private share: p_t = p · t/T in round t = 1 … T;
- TA, the temporal average of private weights: w^l ← β_t w'^l + (1 − β_t) w^{l−1};
- CD, the cyclic distillation.

At p = 0 the method is FedAvg; at p = 1, without LI and TA, it is local training.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from pfl.training.algorithm import Algorithm, RoundContext
from pfl.training.methods.cd2pfed.channels import crossing, divide
from pfl.training.methods.cd2pfed.decoupled import Forward, decouple
from pfl.training.methods.cd2pfed.distill import cyclic_distillation
from pfl.training.methods.cd2pfed.tracing import Trace, trace
from pfl.training.methods.settings import AverageEvery, CD2Settings, Cross
from pfl.training.sgd import Loss, Value, cross_entropy, descend
from pfl.training.split import Split

# (network as traced, network, p_t) -> its forward pass with the scores of its parts.
Parts = Callable[[Trace, nn.Module, float], Forward]
DECAY = 5.0  # of the temporal average's ramp: it begins at exp(−5) of its final weight


@dataclass(frozen=True)
class Division:
    """How a round divides the network.

    Attributes:
        ratio: p_t.
        private: what a client keeps.
        crossing: parameters that lead from one part to the other.
    """

    ratio: float
    private: Split
    crossing: Split


def cd2_pfed(model: nn.Module, settings: CD2Settings, parts: Parts = decouple) -> Algorithm:
    """The method for networks of the architecture of ``model``.

    ``parts`` says whose predictions are distilled: those of the two sub-networks.

    Raises:
        InputError: the network cannot be divided by channels.
    """
    traced = trace(model)
    state = {name: value.detach() for name, value in model.state_dict().items()}

    @lru_cache(maxsize=2)  # every client of a round asks for it
    def division(number: int, rounds: int) -> Division:
        ratio = round_ratio(settings, number, rounds)
        private = divide(traced, state, ratio, settings.cross)
        return Division(ratio, private, crossing(traced, state, ratio))

    def of(context: RoundContext) -> Division:
        return division(context.round, context.training.rounds)

    def training(network: nn.Module, context: RoundContext) -> dict[str, float]:
        return _train(partial(parts, traced), settings, of(context), network, context)

    def cut(network: nn.Module, context: RoundContext) -> dict[str, float]:
        """Take away weights between the parts that came with a download of an earlier round."""
        _clear(network, of(context).crossing)
        return {}

    personalize = cut if settings.cross == Cross.NONE else None
    return Algorithm(
        "cd2-pfed", lambda number, rounds: division(number, rounds).private, training, personalize
    )


def round_ratio(settings: CD2Settings, number: int, rounds: int) -> float:
    """The private share of the channels in round t of T: p_t = p · t/T, or p without LI."""
    return settings.ratio * (number / rounds) if settings.increase else settings.ratio


def average_weight(settings: CD2Settings, number: int, rounds: int) -> float:
    """The weight β_t of the newest private weights in round t of T.

    β_t = β exp(−5 (1 − t/t_0)²) for t ≤ t_0, else β.
    """
    ramp = settings.average_ramp * rounds
    if number >= ramp:
        return settings.average_weight
    return settings.average_weight * math.exp(-DECAY * (1 - number / ramp) ** 2)


def _train(
    parts: Callable[[nn.Module, float], Forward], settings: CD2Settings, division: Division,
    model: nn.Module, context: RoundContext,
) -> dict[str, float]:  # fmt: skip
    """A client's part in a round."""
    loss = _objective(parts, settings, model, division.ratio)
    beta = average_weight(settings, context.round, context.training.rounds)
    by_step = settings.average_every == AverageEvery.STEP
    with ExitStack() as stack:
        if settings.cross == Cross.NONE:
            stack.enter_context(_apart(model, division.crossing))
        average = averaging(model, context.split, beta) if settings.average else None
        after_batch, after_epoch = (average, None) if by_step else (None, average)
        return descend(model, model.parameters(), context, loss, after_batch, after_epoch)


def _objective(
    parts: Callable[[nn.Module, float], Forward], settings: CD2Settings, model: nn.Module,
    ratio: float,
) -> Loss:  # fmt: skip
    """CE(ỹ, y) + λ L_CD; the second term is 0 where a part is empty, or left out without CD."""
    if not settings.distill:
        return cross_entropy
    if ratio in (0, 1):
        return _with_one_part
    forward = parts(model, ratio)

    def loss(model: nn.Module, images: Float[Tensor, "b c h w"], label: Int[Tensor, " b"]) -> Value:
        del model  # it is bound to the forward pass
        logits = forward(images)
        taught = cyclic_distillation(logits.private, logits.shared, settings.detach)
        total = F.cross_entropy(logits.joint, label) + settings.distill_weight * taught
        hits = (logits.joint.detach().argmax(1) == label).float().mean()
        terms = {"loss": total, "accuracy": hits, "distillation": taught}
        return total, {name: term.detach() for name, term in terms.items()}

    return loss


def _with_one_part(
    model: nn.Module, images: Float[Tensor, "b c h w"], label: Int[Tensor, " b"]
) -> Value:
    """The cross-entropy, reported with the terms that other rounds have."""
    value, terms = cross_entropy(model, images, label)
    return value, {**terms, "distillation": torch.zeros_like(terms["loss"])}


def averaging(model: nn.Module, split: Split, beta: float) -> Callable[[], None]:
    """TA: a function that replaces private weights by β w' + (1 − β) w, and shared ones never.

    w' is the weight when it is called, w the one when it was last called, or made.
    """
    private = [(w, split[name]) for name, w in model.named_parameters() if split[name].any()]
    before = [w.detach().clone() for w, _ in private]

    @torch.no_grad()
    def average() -> None:
        for (weight, mask), last in zip(private, before, strict=True):
            weight.copy_(torch.where(mask, torch.lerp(last, weight, beta), weight))
            last.copy_(weight)

    return average


@torch.no_grad()
def _clear(model: nn.Module, masks: Split) -> None:
    for name, weight in model.named_parameters():
        weight.masked_fill_(masks[name].to(weight.device), 0)


@contextmanager
def _apart(model: nn.Module, masks: Split) -> Iterator[None]:
    """Keep these weights at zero: without a gradient, neither momentum nor decay moves them."""
    _clear(model, masks)
    handles = []
    for name, weight in model.named_parameters():
        untyped: Any = weight  # PyTorch does not annotate hooks
        clear = partial(torch.Tensor.masked_fill, mask=masks[name].to(weight.device), value=0)
        handles.append(untyped.register_hook(clear))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
