"""Other readings of CD2-pFed [arXiv 2204.03880], each the package's method with one thing changed.

The paper leaves open what these settle in another way; none is a parameter, since none is known to
help. ``cross: input`` and ``cross: either`` are.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from pfl.runtime.values import annotated, checked
from pfl.training.algorithm import Algorithm, RoundContext
from pfl.training.layers import body_and_classifier
from pfl.training.methods.cd2pfed.cd2pfed import (
    CD2Settings,
    average_weight,
    cd2_pfed,
    round_ratio,
)
from pfl.training.methods.cd2pfed.channels import shared_length
from pfl.training.methods.cd2pfed.decoupled import Forward, Logits
from pfl.training.methods.cd2pfed.tracing import Trace
from pfl.training.methods.registry import make_algorithm
from pfl.training.sgd import sgd

CD2, MOMENTUM = "cd2-pfed", "momentum/"


def slabs(traced: Trace, network: nn.Module, ratio: float) -> Forward:
    """Scores of the two slabs of the joint feature: W_0 f^G + b and W_i f^L + b.

    f = (f^G, f^L) is the feature of the joint network, whose parts have seen each other in every
    layer, and not those of two networks apart. Less one b, the two add up to the joint scores.
    """
    body, classifier = body_and_classifier(network)
    (name,) = (name for name, module in network.named_modules() if module is classifier)
    cut = shared_length(traced.layers[name].reads, classifier.in_features, ratio)

    def forward(images: Float[Tensor, "batch ..."]) -> Logits:
        feature, weight, bias = body(images), classifier.weight, classifier.bias
        shared = F.linear(feature[:, :cut], weight[:, :cut], bias)
        private = F.linear(feature[:, cut:], weight[:, cut:], bias)
        return Logits(classifier(feature), shared, private)

    return forward


def distilled_slabs(model: nn.Module, settings: CD2Settings) -> Algorithm:
    """What is distilled are the slabs of the joint feature."""
    return cd2_pfed(model, settings, slabs)


def ramped_weight(model: nn.Module, settings: CD2Settings) -> Algorithm:
    """λ grows with the private share: λ_t = λ p_t/p."""

    def training(network: nn.Module, context: RoundContext) -> dict[str, float]:
        now = round_ratio(settings, context.round, context.training.rounds)
        weight = settings.distill_weight * (now / settings.ratio)
        return cd2_pfed(network, replace(settings, distill_weight=weight)).train(network, context)

    return replace(cd2_pfed(model, settings), train=training)


def private_bias(model: nn.Module, settings: CD2Settings) -> Algorithm:
    """The bias of the class scores stays at the client once anything does."""
    base, classifier = cd2_pfed(model, settings), body_and_classifier(model)[1]
    (bias,) = (name for name, weight in model.named_parameters() if weight is classifier.bias)

    def split(number: int, rounds: int) -> dict[str, Tensor]:
        masks = dict(base.split(number, rounds))
        kept = any(mask.any() for mask in masks.values())
        return masks | {bias: torch.full_like(masks[bias], kept)}

    return replace(base, split=split)


def averaged_copy(model: nn.Module, settings: CD2Settings) -> Algorithm:
    """TA makes a copy that is used and tested, and training goes on from the weights themselves.

    Once a round v ← β_t w' + (1 − β_t) v on the private elements; v begins as w at the beginning
    of the round in which an element turned private, and is in the client's memory.
    """
    base = cd2_pfed(model, replace(settings, average=False))

    def training(network: nn.Module, context: RoundContext) -> dict[str, float]:
        begun = {name: weight.detach().clone() for name, weight in network.named_parameters()}
        terms = base.train(network, context)
        beta = average_weight(settings, context.round, context.training.rounds)
        for name, weight in network.named_parameters():
            first, mask = begun[name], context.split[name]
            last = context.memory.get(name, torch.full_like(first, torch.nan))
            mean = torch.lerp(torch.where(last.isnan(), first, last), weight.detach(), beta)
            context.memory[name] = torch.where(mask, mean, torch.nan)
        return terms

    @torch.no_grad()
    def use(network: nn.Module, context: RoundContext) -> dict[str, float]:
        if base.personalize is not None:
            base.personalize(network, context)
        for name, weight in network.named_parameters():
            mean = context.memory.get(name, torch.full_like(weight, torch.nan))
            weight.copy_(torch.where(mean.isnan(), weight, mean))
        return {}

    return replace(base, train=training, personalize=use)


def kept_momentum(base: Algorithm) -> Algorithm:
    """Momentum goes on where the client's last round has left it, for any method of one descent.

    The client's memory holds it, so a method with a memory of its own cannot be read so.
    """

    def training(network: nn.Module, context: RoundContext) -> dict[str, float]:
        made: list[torch.optim.Optimizer] = []

        def optimizer(
            parameters: Iterable[nn.Parameter], context: RoundContext
        ) -> torch.optim.Optimizer:
            weights = list(parameters)
            made.append(sgd(weights, context))
            for number, weight in enumerate(weights):
                kept = context.memory.get(f"{MOMENTUM}{number}")
                if kept is not None:  # in the layout of the weight, which the fused step expects
                    buffer = torch.empty_like(weight).copy_(kept)
                    made[-1].state[weight]["momentum_buffer"] = buffer
            return made[-1]

        terms = base.train(network, replace(context, optimizer=optimizer))
        (one,) = made
        for number, weight in enumerate(one.param_groups[0]["params"]):
            if (buffer := one.state[weight].get("momentum_buffer")) is not None:
                context.memory[f"{MOMENTUM}{number}"] = buffer
        return terms

    return replace(base, train=training)


OF_CD2: dict[str, Callable[[nn.Module, CD2Settings], Algorithm]] = {
    "slabs": distilled_slabs, "ramped-weight": ramped_weight, "private-bias": private_bias,
    "averaged-copy": averaged_copy,
}  # fmt: skip
OF_ALL: dict[str, Callable[[Algorithm], Algorithm]] = {"kept-momentum": kept_momentum}


def cd2_settings(values: Mapping[str, object]) -> CD2Settings:
    """The settings of the section ``train.cd2-pfed``, checked."""
    return CD2Settings(
        **{
            key.replace("-", "_"): checked(f"train.{CD2}.{key}", values[key], *kind)
            for key, kind in annotated(CD2Settings).items()
        }
    )


def read(reading: str, method: str, model: nn.Module, values: Mapping[str, object]) -> Algorithm:
    """The method in this reading; as the package has it where ``reading`` is empty.

    Raises:
        ValueError: the reading is not one of this method.
    """
    base = make_algorithm(method, model, values, f"train.{method}")
    if not reading:
        return base
    if method == CD2 and reading in OF_CD2:
        return OF_CD2[reading](model, cd2_settings(values))
    if reading not in OF_ALL:
        raise ValueError(f"The reading '{reading}' is none of {method}: {[*OF_CD2, *OF_ALL]}.")
    return OF_ALL[reading](base)
