"""Layers from the images to the class scores."""

import pytest
from torch import nn

from pfl.errors import InputError
from pfl.training.layers import end_layers, layers
from pfl.training.networks import build
from tests.federations import generator, network


@pytest.mark.parametrize("name", ["lenet5", "resnet20"])
def test_every_entry_is_in_one_layer(name):
    model = build(name, 3, 32, 10, generator())
    names = [name for group in layers(model) for name in group]
    assert sorted(names) == sorted(model.state_dict())


def test_normalization_belongs_to_the_layer_before():
    assert [[name.split(".")[0] for name in group] for group in layers(network(True))] == [
        ["0", "0", "1", "1", "1", "1", "1"],
        ["3", "3", "4", "4", "4", "4", "4"],
        ["7", "7"],
        ["9", "9"],
    ]


def test_a_lone_module_is_a_layer():
    assert layers(nn.Linear(2, 3)) == [["weight", "bias"]]


def test_ends_meet():
    model = network()
    for count in (1, 2, 3):
        top = end_layers(model, count, True, "x")
        bottom = end_layers(model, 4 - count, False, "x")
        assert not top & bottom
        assert top | bottom == set(model.state_dict())


@pytest.mark.parametrize("count", [0, 4, 5])
def test_there_must_be_so_many_layers(count):
    with pytest.raises(InputError, match=r"private-layers is \d, .* 1 … 3"):
        end_layers(network(), count, True, "private-layers")


def test_one_layer_cannot_be_divided():
    with pytest.raises(InputError, match=r"private-layers .* one alone"):
        end_layers(nn.Linear(2, 3), 1, True, "private-layers")
