"""A decoupled network and its two sub-networks in one forward pass.

The network g(w_i, w_0) of CD2-pFed [arXiv 2204.03880] contains a shared sub-network
g(w_0) and a private one g(w_i): in each layer, the weights that lead from channels of the part to
channels of the part, W[shared, shared] and W[private, private]. Both see the whole image and score
every class, the bias of the class scores being common.

What comes before hidden channels are mixed for the first time is not computed again: up to there,
the values of a sub-network are the joint network's values, cut.
"""

import operator
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.fx import Node
from torch.fx.node import map_arg
from torch.nn import functional as F

from pfl.training.methods.cd2pfed.channel_rules import Axis, Convolution, Normalization
from pfl.training.methods.cd2pfed.channels import shared_length
from pfl.training.methods.cd2pfed.tracing import Layer, Trace

CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}  # by dimensions
# On x86 processors, oneDNN (3.12, in torch 2.13 and 2.14) writes past its memory in the gradient of
# a strided 1 × 1 convolution with fewer inputs than a register holds, 8 (AVX2) or 16 (AVX-512), in
# the layout channels_last: github.com/uxlfoundation/oneDNN/issues/6035.
UNSAFE_INPUTS = 16 if platform.machine() in ("x86_64", "AMD64") else 0
# A sub-network may be given a view of the joint network's values, which it must not write to.
OUT_OF_PLACE = {operator.iadd: operator.add, operator.imul: operator.mul}

Layers = Mapping[str, Callable[..., Tensor]]


@dataclass(frozen=True)
class Logits:
    """Class scores of the three networks."""

    joint: Float[Tensor, "batch classes"]
    shared: Float[Tensor, "batch classes"]
    private: Float[Tensor, "batch classes"]


Forward = Callable[[Float[Tensor, "batch ..."]], Logits]


def decouple(traced: Trace, network: nn.Module, ratio: float) -> Forward:
    """The forward pass of ``network``, traced as ``traced``, at a ratio p with 0 < p < 1.

    The joint scores are those of ``network(images)``, bit for bit, and running statistics change as
    there. The sub-networks normalize by statistics of the batch and change nothing; the network is
    taken to be in training mode. Gradients reach its own parameters through all three scores.
    """
    layers: dict[str, Any] = dict(network.named_modules())
    shared, private = (
        layers
        | {name: _narrow(layers[name], layer, ratio, part) for name, layer in traced.layers.items()}
        for part in (0, 1)
    )

    def forward(images: Float[Tensor, "batch ..."]) -> Logits:
        values = _Values(traced.axes, ratio)
        for node in traced.nodes[:-1]:
            if node.op == "placeholder":
                values.joint[node] = images
                continue
            values.joint[node] = _run(node, layers, values.joint.__getitem__, {})
            if node in traced.axes and node not in traced.local:
                values.pairs[node] = (
                    _run(node, shared, partial(values.part, 0), OUT_OF_PLACE),
                    _run(node, private, partial(values.part, 1), OUT_OF_PLACE),
                )
        (scores,) = traced.nodes[-1].all_input_nodes
        return Logits(values.joint[scores], values.part(0, scores), values.part(1, scores))

    return forward


@dataclass
class _Values:
    """Results of operations: of the joint network, and of the shared and private one."""

    axes: Mapping[Node, Axis]
    ratio: float
    joint: dict[Node, Any] = field(default_factory=dict)
    pairs: dict[Node, tuple[Tensor, ...]] = field(default_factory=dict)

    def part(self, part: int, node: Node) -> Any:
        """A value of one sub-network, which is cut from the joint one if it was not computed."""
        if node not in self.axes:
            return self.joint[node]  # a number, which is the same for all
        if node not in self.pairs:
            self.pairs[node] = self._cut(self.joint[node], self.axes[node])
        return self.pairs[node][part]

    def _cut(self, value: Tensor, axis: Axis) -> tuple[Tensor, ...]:
        if axis is None:
            return (value, value)
        length = value.shape[1]
        shared = shared_length(axis, length, self.ratio)
        return torch.split(value, [shared, length - shared], 1)


def _run(
    node: Node,
    layers: Layers,
    value: Callable[[Node], Any],
    instead: Mapping[Any, Callable[..., Any]],
) -> Any:
    """One operation, with these layers and arguments; some functions have others ``instead``."""
    args, kwargs = map_arg(node.args, value), map_arg(node.kwargs, value)
    if node.op == "call_module":
        return layers[str(node.target)](*args, **kwargs)
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    function: Any = instead.get(node.target, node.target)
    return function(*args, **kwargs)


def _narrow(module: Any, layer: Layer, ratio: float, part: int) -> Callable[[Tensor], Tensor]:
    """A layer of the shared (part 0) or the private (part 1) sub-network."""
    if isinstance(module, Normalization):
        return partial(
            _normalize, module, _channels(layer.writes, module.num_features, ratio, part)
        )
    rows, columns = module.weight.shape[:2]
    out = _channels(layer.writes, rows, ratio, part)
    inner = slice(None) if layer.per_channel else _channels(layer.reads, columns, ratio, part)
    if isinstance(module, Convolution):
        return partial(_convolve, module, out, inner)
    return partial(_map, module, out, inner)


def _channels(axis: Axis, length: int, ratio: float, part: int) -> slice:
    shared = shared_length(axis, length, ratio)
    return slice(None) if axis is None else (slice(0, shared), slice(shared, length))[part]


def _convolve(module: Convolution, out: slice, inner: slice, x: Tensor) -> Tensor:
    weight = module.weight[out, inner]
    bias = None if module.bias is None else module.bias[out]
    groups = 1 if module.groups == 1 else len(weight)  # depthwise: a group is a channel
    stride: Any = module.stride
    pointwise = set(module.kernel_size) == {1} and not any(module.padding)
    if pointwise and len(x[0]) < UNSAFE_INPUTS and x.is_cpu:
        x, stride = _subsample(x, stride), 1
    convolve = CONVOLVE[len(module.kernel_size)]
    return convolve(x, weight, bias, stride, module.padding, module.dilation, groups)


def _subsample(x: Tensor, stride: tuple[int, ...]) -> Tensor:
    """The positions of x (batch, channels, ...) that a strided 1 × 1 convolution reads."""
    every: list[Any] = [slice(None, None, step) for step in stride]
    return x[(..., *every)]


def _map(module: nn.Linear, out: slice, inner: slice, x: Tensor) -> Tensor:
    bias = None if module.bias is None else module.bias[out]
    return F.linear(x, module.weight[out, inner], bias)


def _normalize(module: Normalization, part: slice, x: Tensor) -> Tensor:
    """By the batch; a single value per channel, which has no variance, by running statistics."""
    weight = None if module.weight is None else module.weight[part]
    bias = None if module.bias is None else module.bias[part]
    mean, variance = module.running_mean, module.running_var
    if x.numel() == x.shape[1] and mean is not None and variance is not None:
        return F.batch_norm(x, mean[part], variance[part], weight, bias, eps=module.eps)
    return F.batch_norm(x, None, None, weight, bias, training=True, eps=module.eps)
