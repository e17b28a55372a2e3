from collections import OrderedDict

import pytest
import torch
from torch import nn

from pfl.errors import InputError
from pfl.training.methods.cd2pfed.tracing import trace
from pfl.training.networks import NETWORKS, build
from tests.nets import generator, images, plain


class Net(nn.Module):
    """conv1, conv2 and fc, joined as ``join(self, x)`` says."""

    def __init__(self, join):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 4, 3, padding=1)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1)
        self.fc = nn.Linear(256, 3)
        self.join = join

    def forward(self, x):
        return self.join(self, x)


def layered(**layers):
    """A network with these layers between a convolution and the classifier."""
    return nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(2, 4, 3, padding=1),
            **layers,
            flatten=nn.Flatten(),
            classifier=nn.LazyLinear(3),
        )
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_every_named_network_can_be_divided(name):
    network = build(name, 3, 32, 10, generator())
    found = trace(network)
    assert found.layers["classifier"].writes is None
    assert [layer.reads for layer in found.layers.values()].count(None) == 1  # the images
    for layer in found.layers.values():
        assert not layer.per_channel or layer.reads == layer.writes


def test_layers_read_and_write_what_they_are_built_for():
    network = plain(widths=(4, 6, 5))
    found = {name: (layer.reads, layer.writes) for name, layer in trace(network).layers.items()}
    assert found == {
        "conv1": (None, 4),
        "norm1": (4, 4),
        "conv2": (4, 6),
        "depthwise": (6, 6),
        "fc": (6, 5),
        "classifier": (5, None),
    }


def test_what_is_added_to_the_images_is_common():
    class Skip(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Conv2d(2, 4, 1), nn.Conv2d(4, 2, 1)
            self.fc = nn.Linear(2 * 64, 3)

        def forward(self, x):
            return self.fc((x + self.down(self.up(x))).flatten(1))

    layers = trace(Skip()).layers
    assert (layers["up"].writes, layers["down"].writes, layers["fc"].reads) == (4, None, None)


FLATTENS = {
    "method": lambda x: x.flatten(1),
    "named": lambda x: x.flatten(start_dim=1),
    "function": lambda x: torch.flatten(x, 1),
    "view by size": lambda x: x.view(x.size(0), -1),
    "reshape by shape": lambda x: x.reshape(x.shape[0], -1),
}


@pytest.mark.parametrize("spelling", FLATTENS)
def test_flattens_may_be_spelled_in_any_way(spelling):
    flatten = FLATTENS[spelling]
    layers = trace(Net(lambda net, x: net.fc(flatten(net.conv2(net.conv1(x)))))).layers
    assert (layers["fc"].reads, layers["fc"].writes) == (4, None)


@pytest.mark.parametrize("average", [lambda x: x.mean((2, 3)), lambda x: x.mean(dim=[-2, -1])])
def test_averages_keep_channels(average):
    network = Net(lambda net, x: net.fc(average(net.conv2(net.conv1(x)))))
    network.fc = nn.Linear(4, 3)
    assert trace(network).layers["fc"].reads == 4


def test_a_layer_called_twice_ties_its_calls():
    network = Net(lambda net, x: net.fc(net.conv2(net.conv2(net.conv1(x))).flatten(1)))
    layers = trace(network).layers
    assert (layers["conv2"].reads, layers["conv2"].writes) == (4, 4)


REFUSED = {
    "grouped": (layered(odd=nn.Conv2d(4, 4, 1, groups=2)), "'odd'.*2 groups bind 4 input to 4"),
    "multiplied": (layered(odd=nn.Conv2d(4, 8, 1, groups=4)), "'odd'.*4 groups bind 4 .* to 8"),
    "group norm": (layered(odd=nn.GroupNorm(2, 4)), "'odd'.*normalizes several channels"),
    "layer norm": (layered(odd=nn.LayerNorm(8)), "'odd'.*normalizes several channels"),
    "dropout": (layered(odd=nn.Dropout()), "'odd'.*global generator"),
    "shuffle": (layered(odd=nn.PixelShuffle(2)), "'odd'.*kind PixelShuffle"),
    "padding": (layered(odd=nn.Conv2d(4, 4, 1, padding_mode="circular")), "'odd'.*'circular'"),
    "narrow": (layered(odd=nn.Conv2d(4, 1, 1)), "'odd'.*one hidden channel"),
    "positions": (nn.Sequential(nn.Linear(8, 3), nn.Flatten()), "'0'.*not flattened"),
    "no scores": (nn.Sequential(nn.Conv2d(2, 4, 1)), "'output'.*class scores"),
    "concatenation": (Net(lambda net, x: torch.cat([net.conv1(x)] * 2, 1)), "'cat'.*mix"),
    "transposition": (Net(lambda net, x: net.conv1(x).transpose(1, 2)), "'transpose'.*mix"),
    "odd flatten": (Net(lambda net, x: net.fc(net.conv1(x).flatten(0))), "'flatten'.*mix"),
    "odd average": (Net(lambda net, x: net.fc(net.conv1(x).mean(1))), "'mean'.*mix"),
    "bare weight": (Net(lambda net, x: x * net.conv1.bias), "'conv1.bias'.*used outside"),
    "branch": (Net(lambda net, x: net.conv1(x) if x.sum() > 0 else x), "cannot be followed"),
    "unused": (Net(lambda net, x: net.fc(net.conv1(x).flatten(1))), "'conv2.weight' belongs to no"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_networks_that_cannot_be_divided_are_refused_by_layer_and_reason(case):
    network, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        trace(network)


def test_a_network_of_two_inputs_is_refused():
    class Two(nn.Module):
        def forward(self, x, y):
            return x + y

    with pytest.raises(InputError, match="a batch of images and nothing else"):
        trace(Two())


def test_values_are_local_until_hidden_channels_are_mixed():
    network = plain()
    found = trace(network)
    local = {str(node.target) for node in found.local}
    assert {"conv1", "norm1", "act1", "pool1"} <= local
    assert not {"conv2", "act2", "depthwise", "flatten", "fc", "classifier"} & local


def test_a_trace_leaves_the_network_alone():
    network = plain().double()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    trace(network)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert network(images()).shape == (5, 3)
