"""Networks to be trained from scratch, by name: LeNet-5 and residual networks.

- ``lenet5``: LeCun et al., "Gradient-based learning applied to document recognition" (1998), with
  rectifiers and maximum pooling as federated learning's benchmarks have it.
- ``resnet18``, ``resnet34``: He et al., arXiv 1512.03385, table 1.
- ``resnet20``, ``resnet32``: the same paper, section 4.2, for images of 32 × 32 pixels, with
  projections as shortcuts that widen (option B), as in the larger networks.
- ``resnet20a``, ``resnet32a``: the same with shortcuts that have no parameters (option A), as that
  section has them. The channels of zeros stand between those of the input instead of after them:
  another order of the same channels, in which a division of the input is one of the output.

Each network maps images (batch, channels, size, size) to class scores (batch, classes). Its weights
come from the generator alone, so equal arguments give equal networks.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.fx import Proxy

from pfl.errors import InputError
from pfl.training.settings import Network

SMALL_IMAGE = 64  # up to this size a residual network begins with a 3 × 3 convolution
SMALLEST = 4  # pixels that two poolings need


@dataclass(frozen=True)
class ImageShape:
    """What a network is built for: images of channels × size × size, and how many classes."""

    channels: int
    size: int
    classes: int


class Normalization(nn.BatchNorm2d):
    """Batch normalization that can train on one value per channel, by its running statistics.

    One value has no variance; a client whose last batch is one image, seen at one position, would
    otherwise stop the run.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Normalize x (batch, channels, height, width)."""
        if self.training and x.numel() == x.shape[1]:
            return nn.functional.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
        return super().forward(x)


class Widening(nn.Module):
    """A shortcut without parameters, x ↦ (x_0, 0, x_1, 0, …), at every ``stride``-th position."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Twice the channels of x (batch, channels, height, width)."""
        seen = x[:, :, :: self.stride, :: self.stride]
        return torch.stack((seen, torch.zeros_like(seen)), 2).flatten(1, 2)


class Residual(nn.Module):
    """relu(body(x) + shortcut(x)), equation (2) of the paper."""

    def __init__(self, body: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut

    def forward(self, x: Tensor | Proxy) -> Tensor | Proxy:
        """Add the two paths; x is a proxy while CD2-pFed traces the channels."""
        return nn.functional.relu(self.body(x) + self.shortcut(x))


def build(
    name: str, in_channels: int, image_size: int, classes: int, generator: torch.Generator
) -> nn.Module:
    """The network ``name`` of :data:`NETWORKS` for square images, grey (1) or RGB (3).

    Its weights, on the CPU, are drawn from ``generator``.

    Raises:
        InputError: the name is unknown, or the images are too small.
    """
    if name not in NETWORKS:
        raise InputError(f"rounds.network is {name}: choose from {', '.join(NETWORKS)}.")
    if image_size < SMALLEST:
        raise InputError(
            f"Images of {image_size} pixels are too small for '{name}': set rounds.image-size to "
            f"at least {SMALLEST}."
        )
    return _drawn(lambda: NETWORKS[name](ImageShape(in_channels, image_size, classes)), generator)


def build_head(features: int, hidden: int, classes: int, generator: torch.Generator) -> nn.Module:
    """A network on m = ``features``: linear, or with a layer of ``hidden`` > 0 rectified units."""

    def make() -> nn.Module:
        if not hidden:
            return _named(classifier=nn.Linear(features, classes))
        layer, classifier = nn.Linear(features, hidden), nn.Linear(hidden, classes)
        return _named(hidden=layer, relu=nn.ReLU(), classifier=classifier)

    return _drawn(make, generator)


def _drawn(make: Callable[[], nn.Module], generator: torch.Generator) -> nn.Module:
    """A new network with weights from ``generator``."""
    with torch.device("meta"):  # no memory and, above all, no draw from the global generator
        network = make()
    network = network.to_empty(device="cpu")
    for module in network.modules():
        _initialize(module, generator)
    return network


def _initialize(module: nn.Module, generator: torch.Generator) -> None:
    """Convolutions of residual networks as He et al. (2015), the rest uniform as torch does it.

    A layer with a bias is uniform in ±1/√(fan in), weight and bias alike.
    """
    if isinstance(module, nn.Conv2d) and module.bias is None:
        nn.init.kaiming_normal_(
            module.weight, mode="fan_out", nonlinearity="relu", generator=generator
        )
    elif isinstance(module, nn.Conv2d | nn.Linear):
        bound = 1 / math.sqrt(module.weight[0].numel())
        for tensor in module.parameters():
            nn.init.uniform_(tensor, -bound, bound, generator=generator)
    elif isinstance(module, nn.BatchNorm2d):
        module.reset_parameters()


def _lenet5(shape: ImageShape) -> nn.Module:
    """Two 5 × 5 convolutions, each pooled by 2, and three linear layers.

    The rectifier comes after the pooling: the largest of rectified values is the largest value,
    rectified, and there are a quarter as many to rectify.

    Images below 32 pixels are padded by 2, as LeCun et al. did with 28; below 12 pixels the second
    convolution needs padding too.
    """
    paddings = (0 if shape.size >= 32 else 2, 0 if shape.size >= 12 else 2)
    side = shape.size
    for padding in paddings:
        side = (side + 2 * padding - 4) // 2
    return _named(
        conv1=nn.Conv2d(shape.channels, 6, 5, padding=paddings[0]),
        pool1=nn.MaxPool2d(2),
        relu1=nn.ReLU(),
        conv2=nn.Conv2d(6, 16, 5, padding=paddings[1]),
        pool2=nn.MaxPool2d(2),
        relu2=nn.ReLU(),
        flatten=nn.Flatten(),
        fc1=nn.Linear(16 * side**2, 120),
        relu3=nn.ReLU(),
        fc2=nn.Linear(120, 84),
        relu4=nn.ReLU(),
        classifier=nn.Linear(84, shape.classes),
    )


def _resnet(
    shape: ImageShape, blocks: Sequence[int], widths: Sequence[int], project: bool = True
) -> nn.Module:
    """Stages of basic blocks; each stage but the first halves the image and doubles the width."""
    stages, inputs = OrderedDict[str, nn.Module](), widths[0]
    for number, (count, width) in enumerate(zip(blocks, widths, strict=True), start=1):
        rows: list[nn.Module] = []
        for block in range(count):
            stride = 2 if block == 0 and number > 1 else 1
            rows.append(_block(inputs, width, stride, project))
            inputs = width
        stages[f"stage{number}"] = nn.Sequential(*rows)
    return _named(
        stem=_stem(shape, widths[0]),
        **stages,
        pool=nn.AdaptiveAvgPool2d(1),
        flatten=nn.Flatten(),
        classifier=nn.Linear(inputs, shape.classes),
    )


def _stem(shape: ImageShape, width: int) -> nn.Module:
    """7 × 7 with stride 2 and a pooling for photographs, 3 × 3 for small images."""
    small = shape.size <= SMALL_IMAGE
    conv = _convolution(shape.channels, width, *((3, 1) if small else (7, 2)))
    pool = {} if small else {"pool": nn.MaxPool2d(3, stride=2, padding=1)}
    return _named(conv=conv, norm=Normalization(width), relu=nn.ReLU(), **pool)


def _block(inputs: int, width: int, stride: int, project: bool) -> nn.Module:
    """Basic block: two 3 × 3 convolutions beside the identity, or what widens it."""
    shortcut: nn.Module = nn.Identity()
    if inputs != width and not project:
        shortcut = Widening(stride)
    elif inputs != width:
        shortcut = _named(conv=_convolution(inputs, width, 1, stride), norm=Normalization(width))
    body = _named(
        conv1=_convolution(inputs, width, 3, stride),
        norm1=Normalization(width),
        relu=nn.ReLU(),
        conv2=_convolution(width, width, 3, 1),
        norm2=Normalization(width),
    )
    return Residual(body, shortcut)


def _convolution(inputs: int, width: int, kernel: int, stride: int) -> nn.Conv2d:
    """Without a bias: the normalization after it has one."""
    return nn.Conv2d(inputs, width, kernel, stride, padding=kernel // 2, bias=False)


def _named(**layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(OrderedDict(layers))


NETWORKS: dict[str, Callable[[ImageShape], nn.Module]] = {
    Network.LENET5: _lenet5,
    Network.RESNET18: lambda shape: _resnet(shape, (2, 2, 2, 2), (64, 128, 256, 512)),
    Network.RESNET34: lambda shape: _resnet(shape, (3, 4, 6, 3), (64, 128, 256, 512)),
    Network.RESNET20: lambda shape: _resnet(shape, (3, 3, 3), (16, 32, 64)),
    Network.RESNET32: lambda shape: _resnet(shape, (5, 5, 5), (16, 32, 64)),
    Network.RESNET20A: lambda shape: _resnet(shape, (3, 3, 3), (16, 32, 64), project=False),
    Network.RESNET32A: lambda shape: _resnet(shape, (5, 5, 5), (16, 32, 64), project=False),
}
