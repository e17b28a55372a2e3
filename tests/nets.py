"""Small networks for tests of channel decoupling."""

from collections import OrderedDict

import torch
from torch import nn

from pfl.training.methods.cd2pfed.channels import divide
from pfl.training.methods.cd2pfed.tracing import trace
from pfl.training.networks import Residual


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def drawn(network, seed=0):
    """The network in double precision, with weights and running statistics from a generator."""
    network = network.double()
    source = generator(seed)
    with torch.no_grad():
        for name, value in network.state_dict().items():
            if value.is_floating_point():
                values = torch.randn(value.shape, generator=source, dtype=value.dtype) / 2
                value.copy_(values.abs() + 0.5 if name.endswith("running_var") else values)
    return network


def plain(widths=(4, 6, 5), classes=3):
    """Convolutions, normalization, a flatten that leaves four positions, linear layers."""
    first, second, third = widths
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(2, first, 3, padding=1, bias=False),
            norm1=nn.BatchNorm2d(first),
            act1=nn.Tanh(),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(first, second, 3),
            act2=nn.Tanh(),
            depthwise=nn.Conv2d(second, second, 1, groups=second),
            flatten=nn.Flatten(),
            fc=nn.Linear(4 * second, third),
            act3=nn.Tanh(),
            classifier=nn.Linear(third, classes),
        )
    )


def residual(widths=(4, 6), classes=3):
    """Two blocks, one with the identity and one with a projection beside it."""
    first, second = widths

    def body(inputs, outputs, stride):
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.Tanh(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    projection = nn.Sequential(nn.Conv2d(first, second, 1, 2, bias=False), nn.BatchNorm2d(second))
    return nn.Sequential(
        OrderedDict(
            stem=nn.Conv2d(2, first, 3, padding=1, bias=False),
            norm=nn.BatchNorm2d(first),
            block1=Residual(body(first, first, 1), nn.Identity()),
            block2=Residual(body(first, second, 2), projection),
            pool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            classifier=nn.Linear(second, classes),
        )
    )


KINDS = {"plain": plain, "residual": residual}


def images(count=5, seed=1):
    return torch.randn(count, 2, 8, 8, generator=generator(seed), dtype=torch.float64)


def channel_split(model, ratio, cross):
    """The split of a network at a private share of its channels."""
    return divide(trace(model), model.state_dict(), ratio, cross)
