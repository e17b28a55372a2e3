"""Which channels each layer of a network reads and writes, found by following an image through it.

The network is traced symbolically (``torch.fx``). A value in it has an *axis*: its number of hidden
channels, which a decoupled network divides between its two parts, or None when the axis is
*common*, so that both parts have all of it. The rules:

- the images and the class scores are common;
- a convolution or a linear layer reads the axis of its input and writes a new one;
- what works channel by channel (rectifier, pooling, normalization, depthwise convolution) writes
  the axis that it reads, and a flatten leaves each channel its positions, one after the other;
- an addition or a product ties the axes of its two inputs: they are one from then on, and common
  if either was.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import fx, nn
from torch.fx import Node

from pfl.errors import InputError
from pfl.training.methods.cd2pfed.channel_rules import (
    ADVICE,
    CHANNELWISE_MODULES,
    Axis,
    ChannelMap,
    Convolution,
    Normalization,
    apply_rule,
    refuse,
)


@dataclass(frozen=True)
class Layer:
    """The axes of a layer that has state.

    Attributes:
        reads: of its input.
        writes: of its output.
        per_channel: each weight belongs to one channel, by its first dimension (normalization,
            depthwise convolution); otherwise weights lead from each input to each output channel.
    """

    reads: Axis
    writes: Axis
    per_channel: bool


@dataclass(frozen=True)
class Trace:
    """A network as a list of operations; it holds for every network of the same architecture.

    Attributes:
        nodes: the operations, in order.
        layers: every layer that has state, by name.
        axes: of the values that have channels.
        local: values whose every channel comes from common values alone: computing some of their
            channels gives the same as computing all and cutting.
    """

    nodes: tuple[Node, ...]
    layers: Mapping[str, Layer]
    axes: Mapping[Node, Axis]
    local: frozenset[Node]


class _Tracer(fx.Tracer):
    """Enters every module but torch's own layers and what is derived from the known ones."""

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        known = (Convolution, Normalization, nn.Linear, *CHANNELWISE_MODULES)
        return isinstance(module, known) or super().is_leaf_module(module, name)


def trace(network: nn.Module) -> Trace:
    """Follow the channels through ``network``, which is left as it is.

    Raises:
        InputError: a layer is of a kind that cannot be divided by channels, or whose channels
            cannot be followed; it is named, with the reason.
    """
    try:
        nodes = tuple(_Tracer().trace(network).nodes)
    except (fx.proxy.TraceError, TypeError) as error:
        raise InputError(
            "The channels of this network cannot be followed, because its operations depend on "
            f"the values or the shape of its input ({error}). {ADVICE}"
        ) from error
    known = ChannelMap(dict(network.named_modules()))
    for node in nodes:
        apply_rule(node, known)
    layers = {
        name: Layer(reads.axis, writes.axis, per_channel)
        for name, (reads, writes, per_channel) in known.layers.items()
    }
    _check(network, layers)
    axes = {node: channels.axis for node, channels in known.channels.items()}
    return Trace(nodes, layers, axes, _local(nodes, layers, axes))


def _check(network: nn.Module, layers: Mapping[str, Layer]) -> None:
    """Every entry of the state belongs to a traced layer; no hidden axis has a single channel."""
    for entry in network.state_dict():
        if entry.rpartition(".")[0] not in layers:
            raise InputError(
                f"The entry '{entry}' belongs to no layer that takes part in the network's "
                "output, or to one that has two names. Remove it from the network."
            )
    for name, layer in layers.items():
        if layer.writes == 1:
            raise refuse(name, "it has one hidden channel, and each part needs one")


def _local(
    nodes: tuple[Node, ...], layers: Mapping[str, Layer], axes: Mapping[Node, Axis]
) -> frozenset[Node]:
    local: set[Node] = set()
    for node in nodes:
        layer = layers.get(str(node.target)) if node.op == "call_module" else None
        mixes = layer is not None and not layer.per_channel and layer.reads is not None
        inputs = (value for value in node.all_input_nodes if value in axes)
        if node in axes and not mixes and all(value in local for value in inputs):
            local.add(node)
    return frozenset(local)
