"""How channels pass each operation of a network that ``tracing`` beside this file has traced."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.fx import Node
from torch.nn import functional as F

from pfl.errors import InputError
from pfl.training.networks import Widening

Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d
Normalization = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d
# What acts on each channel by itself and has no state.
CHANNELWISE_MODULES = (
    nn.Identity,
    *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Hardswish),
    *(nn.Sigmoid, nn.Tanh, nn.Softplus),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d),
    *(nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d),
    Widening,  # each channel becomes two, that stay beside each other
)
CHANNELWISE_FUNCTIONS = (
    *(F.relu, torch.relu, F.relu6, F.leaky_relu, F.elu, F.gelu, F.silu, F.hardswish),
    *(torch.sigmoid, torch.tanh, F.softplus),
    *(F.max_pool1d, F.max_pool2d, F.max_pool3d, F.avg_pool1d, F.avg_pool2d, F.avg_pool3d),
    *(F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d),
)
CHANNELWISE_METHODS = ("relu", "sigmoid", "tanh", "contiguous")
TIES = (operator.add, operator.iadd, operator.mul, operator.imul, torch.add, torch.mul)
ADVICE = "Choose another network, or a method that keeps whole layers private."
REASONS: dict[type[nn.Module], str] = {
    nn.GroupNorm: "it normalizes several channels together",
    nn.LayerNorm: "it normalizes several channels together",
    nn.Dropout: "it draws from the global generator, so that no run could be repeated",
}

AVERAGES = ("((2, 3),)", "((-2, -1),)", "([2, 3],)", "([-2, -1],)")
FLATTENS = ("(1,)", "(1, -1)", "(('start_dim', 1),)")  # arguments of a call

Axis = int | None  # hidden channels, or None: common to both parts


class Channels:
    """Channels that are divided alike; tied ones are one from then on, common if either was.

    Of two numbers of channels the smaller is kept: the others are groups of as many as widened.
    """

    def __init__(self, count: Axis) -> None:
        self._count = count
        self._parent: Channels | None = None

    def _root(self) -> "Channels":
        return self if self._parent is None else self._parent._root()

    @property
    def axis(self) -> Axis:
        """How many hidden channels there are, None when they are common."""
        return self._root()._count

    def tie(self, other: "Channels") -> None:
        """Make both one."""
        mine, its = self._root(), other._root()
        if mine is not its:
            its._parent = mine
            both = mine._count, its._count
            mine._count = None if None in both else min(filter(None, both))


@dataclass
class ChannelMap:
    """What is known of a network so far.

    Attributes:
        modules: of the network, by name.
        channels: of every value that has some.
        flat: values of two dimensions, (batch, channels × positions).
        layers: channels that each layer with state reads and writes, and whether every weight of
            it belongs to one channel.
    """

    modules: Mapping[str, nn.Module]
    channels: dict[Node, Channels] = field(default_factory=dict)
    flat: set[Node] = field(default_factory=set)
    layers: dict[str, tuple[Channels, Channels, bool]] = field(default_factory=dict)

    def inputs(self, node: Node) -> list[Node]:
        """The inputs of an operation that have channels."""
        return [value for value in node.all_input_nodes if value in self.channels]

    def keep(self, node: Node, value: Node, flat: bool = False) -> None:
        """The result of ``node`` has the channels of ``value``; ``flat``: in two dimensions."""
        self.channels[node] = self.channels[value]
        if flat or value in self.flat:
            self.flat.add(node)

    def write(
        self, name: str, reads: Channels, writes: Channels, per_channel: bool = False
    ) -> Channels:
        """Note a layer; called again, it reads and writes the channels of its first call."""
        first = self.layers.setdefault(name, (reads, writes, per_channel))
        first[0].tie(reads)
        first[1].tie(writes)
        return first[1]


def refuse(name: str, reason: str) -> InputError:
    """The error that ``name`` cannot be divided by channels."""
    return InputError(f"The layer '{name}' cannot be divided by channels: {reason}. {ADVICE}")


def apply_rule(node: Node, known: ChannelMap) -> None:
    """Note the channels of the result of ``node``, by the rule for its operation.

    Raises:
        InputError: they cannot be followed.
    """
    RULES[node.op](node, known)


def _input(node: Node, known: ChannelMap) -> None:
    if known.channels:
        raise refuse(node.name, "a network has to take a batch of images and nothing else")
    known.channels[node] = Channels(None)


def _output(node: Node, known: ChannelMap) -> None:
    scores = node.args[0]
    if not isinstance(scores, Node) or scores not in known.flat:
        raise refuse(node.name, "a network has to return class scores (batch, classes) alone")
    known.channels[scores].tie(Channels(None))


def _attribute(node: Node, known: ChannelMap) -> None:
    del known
    raise refuse(str(node.target), "it is used outside of a convolution, linear or batch norm")


def _module(node: Node, known: ChannelMap) -> None:
    name = str(node.target)
    module, (value,) = known.modules[name], known.inputs(node)
    if isinstance(module, Convolution):
        known.channels[node] = _convolution(name, module, known.channels[value], known)
    elif isinstance(module, nn.Linear):
        known.channels[node] = _linear(name, module, value, known)
        known.flat.add(node)
    elif isinstance(module, Normalization):
        known.write(name, known.channels[value], known.channels[value], per_channel=True)
        known.keep(node, value)
    elif isinstance(module, CHANNELWISE_MODULES):
        known.keep(node, value)
    elif isinstance(module, nn.Flatten) and (module.start_dim, module.end_dim) == (1, -1):
        known.keep(node, value, flat=True)
    else:
        kind = type(module)
        raise refuse(
            name, REASONS.get(kind, f"it is of the kind {kind.__name__}, which may mix channels")
        )


def _convolution(name: str, module: Convolution, reads: Channels, known: ChannelMap) -> Channels:
    if module.padding_mode != "zeros":
        raise refuse(name, f"its padding mode is '{module.padding_mode}', not 'zeros'")
    if module.groups == 1:
        return known.write(name, reads, Channels(module.out_channels))
    if module.groups == module.in_channels == module.out_channels:
        return known.write(name, reads, reads, per_channel=True)
    raise refuse(
        name,
        f"its {module.groups} groups bind {module.in_channels} input to {module.out_channels} "
        "output channels, so that single channels do not split",
    )


def _linear(name: str, module: nn.Linear, value: Node, known: ChannelMap) -> Channels:
    reads = known.channels[value]
    if value not in known.flat:
        raise refuse(name, "its input has positions besides channels, and is not flattened")
    if module.in_features % (reads.axis or 1):
        raise refuse(
            name, f"its {module.in_features} inputs are no multiple of {reads.axis} channels"
        )
    return known.write(name, reads, Channels(module.out_features))


def _function(node: Node, known: ChannelMap) -> None:
    values = known.inputs(node)
    if node.target in TIES and values:
        known.keep(node, values[0], flat=values[-1] in known.flat)
        known.channels[values[0]].tie(known.channels[values[-1]])
    elif node.target in CHANNELWISE_FUNCTIONS and len(values) == 1:
        known.keep(node, values[0])
    elif node.target is torch.flatten and _flattens(node):
        known.keep(node, values[0], flat=True)
    elif not _is_number(node):
        raise refuse(node.name, "this operation may mix channels")


def _method(node: Node, known: ChannelMap) -> None:
    values = known.inputs(node)
    if node.target in CHANNELWISE_METHODS and len(values) == 1:
        known.keep(node, values[0])
    elif _flattens(node) or _averages(node):
        known.keep(node, values[0], flat=True)
    elif not _is_number(node):
        raise refuse(node.name, "this operation may mix channels")


def _is_number(node: Node) -> bool:
    """Whether it is a value's shape, or an entry of it: a number that is not followed."""
    if node.target is operator.getitem and isinstance(node.args[0], Node):
        return _is_number(node.args[0])
    return node.target == "size" or (node.target is getattr and str(node.args[1]) == "shape")


def _flattens(node: Node) -> bool:
    """Whether a call of flatten, view or reshape keeps the batch and joins everything else."""
    rest = (*node.args[1:], *node.kwargs.items())
    if node.target in ("view", "reshape"):
        return len(rest) == 2 and isinstance(rest[0], Node) and bool(rest[1] == -1)
    return node.target in ("flatten", torch.flatten) and str(rest) in FLATTENS


def _averages(node: Node) -> bool:
    """Whether a call of the method mean takes it over both dimensions of images."""
    dimensions = (*node.args[1:], *node.kwargs.values())
    return node.target == "mean" and str(dimensions) in AVERAGES


RULES: dict[str, Callable[[Node, ChannelMap], None]] = {
    "placeholder": _input,
    "output": _output,
    "get_attr": _attribute,
    "call_module": _module,
    "call_function": _function,
    "call_method": _method,
}
