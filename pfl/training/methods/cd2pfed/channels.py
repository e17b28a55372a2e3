"""Channel decoupling: which entries of a network a client keeps, and which it shares.

CD2-pFed [arXiv 2204.03880] divides the channels of every layer: a share p of them is
private, 1 − p shared. With C channels, the first C − n are shared and the last n private,

    n = min(⌈p C⌉, C − 1) for 0 < p < 1,    n = 0 at p = 0,    n = C at p = 1,

so the slabs are nested as p grows. Rounding up gives narrow layers a private channel from the first
round. Images and class scores are common to both parts: see
:mod:`pfl.training.methods.cd2pfed.tracing`.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool
from torch import Tensor

from pfl.runtime.rounding import portion
from pfl.training.methods.cd2pfed.channel_rules import Axis
from pfl.training.methods.cd2pfed.tracing import Layer, Trace
from pfl.training.methods.settings import Cross
from pfl.training.split import Split, State, all_private, nothing_private

# Of the weights between hidden channels: (is the output private, is the input) -> is the weight.
OWNERS: dict[Cross, Callable[[Tensor, Tensor], Tensor]] = {
    Cross.OUTPUT: lambda out, inner: out,
    Cross.INPUT: lambda out, inner: inner,
    Cross.EITHER: torch.logical_and,
}


def private_channels(channels: int, ratio: float) -> int:
    """The number n of private ones among ``channels`` ≥ 2 at the ratio p in [0, 1]."""
    if ratio in (0, 1):
        return int(ratio) * channels
    return min(max(math.ceil(portion(channels, ratio)), 1), channels - 1)


def shared_length(axis: Axis, length: int, ratio: float) -> int:
    """How many of the ``length`` first entries along an axis are shared: all if it is common.

    A flattened channel has several entries, one for each of its positions.
    """
    if axis is None:
        return length
    return (axis - private_channels(axis, ratio)) * (length // axis)


def divide(traced: Trace, state: State, ratio: float, cross: Cross) -> Split:
    """The split of a traced network with this state at the ratio p in [0, 1].

    Normalization's weights and running statistics follow their channel. What belongs to no hidden
    channel (the bias of the classifier, counts of batches) is shared, but at p = 1 all is private.
    """
    if ratio in (0, 1):
        return all_private(state) if ratio else nothing_private(state)
    owner = OWNERS.get(cross, torch.logical_or)

    def private(layer: Layer, value: Tensor) -> Bool[Tensor, "..."]:
        out, inner = _sides(layer, value, ratio)
        return owner(out, inner) if _leads(layer, value) else out | inner

    return _masks(traced, state, private)


def crossing(traced: Trace, state: State, ratio: float) -> Split:
    """Masks of the weights that lead from a channel of one part to a channel of the other."""

    def cut(layer: Layer, value: Tensor) -> Bool[Tensor, "..."]:
        out, inner = _sides(layer, value, ratio)
        return (out ^ inner) & _leads(layer, value)

    return _masks(traced, state, cut)


def _leads(layer: Layer, value: Tensor) -> bool:
    """Whether these are weights from hidden channels to hidden channels."""
    hidden = layer.reads is not None and layer.writes is not None
    return hidden and value.ndim > 1 and not layer.per_channel


def _masks(traced: Trace, state: State, rule: Callable[[Layer, Tensor], Tensor]) -> Split:
    masks = {}
    for name, value in state.items():
        layer = traced.layers[name.rpartition(".")[0]]
        masks[name] = rule(layer, value).expand(value.shape).contiguous()
    return masks


def _sides(layer: Layer, value: Tensor, ratio: float) -> tuple[Tensor, Tensor]:
    """Whether the output and the input channel are private, for each entry, to be broadcast."""
    none = torch.zeros((), dtype=torch.bool)
    if value.ndim == 0:
        return none, none
    out = _private(layer.writes, value.shape[0], ratio).reshape(-1, *(1,) * (value.ndim - 1))
    if layer.per_channel or value.ndim == 1:
        return out, none
    inner = _private(layer.reads, value.shape[1], ratio).reshape(-1, *(1,) * (value.ndim - 2))
    return out, inner


def _private(axis: Axis, length: int, ratio: float) -> Bool[Tensor, " length"]:
    return torch.arange(length) >= shared_length(axis, length, ratio)
