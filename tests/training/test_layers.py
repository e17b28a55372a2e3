"""Layers from the images to the class scores."""

import pytest
import torch
from torch import nn

from pfl.errors import InputError
from pfl.training.layers import body_and_classifier, end_layers, layers
from pfl.training.networks import build, build_head
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


@pytest.mark.parametrize("name", ["lenet5", "resnet20"])
def test_a_network_is_its_classifier_on_its_body(name):
    model = build(name, 3, 32, 10, generator()).eval()
    body, classifier = body_and_classifier(model)
    images = torch.randn(2, 3, 32, 32, generator=generator())
    assert torch.equal(classifier(body(images)), model(images))
    assert classifier is model[-1] and classifier.out_features == 10


def test_the_body_of_a_linear_head_returns_its_input():
    rows = torch.randn(2, 6, generator=generator())
    body, _ = body_and_classifier(build_head(6, 0, 3, generator()))
    assert body(rows) is rows


@pytest.mark.parametrize("model", [nn.Linear(2, 3), nn.Sequential(nn.Linear(2, 3), nn.ReLU())])
def test_other_networks_have_no_classifier(model):
    with pytest.raises(ValueError, match="ends with a linear one"):
        body_and_classifier(model)
