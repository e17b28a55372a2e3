"""Heads on features are networks like others: every method works, and limits of methods hold."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from ruamel.yaml import YAML
from torch import nn

from pfl.data.tensors.client_data import ClientData, TestData
from pfl.data.tensors.features import feature_view
from pfl.data.tensors.federated_data import FederatedData
from pfl.errors import InputError
from pfl.training.head_settings import head_settings, head_training
from pfl.training.methods.heads import head_problem
from pfl.training.methods.registry import METHODS
from pfl.training.networks import build_head
from tests.federations import CLASSES, SIZES, equal, generator, play, same, training
from tests.workspace import ROOT

M = 6
NOT_ON_FEATURES = {"fedbn", "cd2-pfed"}  # one needs normalization, the other channels of images
SMALL = {
    "lg-fed": {"shared-layers": 1, "shared-end": "top"},
    "pfedme": {"attraction": 1.0, "inner-steps": 2, "learning-rate": 0.5},
}

PARAMS = YAML(typ="safe", pure=True).load(ROOT / "params.yaml")


def samples(count, seed):
    g = generator(seed)
    label = torch.randint(CLASSES, (count,), generator=g)
    noise = torch.randint(-3000, 3000, (count, M), generator=g)
    return (noise + 4000 * nn.functional.one_hot(label, M)).to(torch.int16), label


def data():
    stored = [samples(size, 1 + i) for i, size in enumerate(SIZES)]
    view = feature_view(rows for rows, _ in stored if len(rows))
    clients = [ClientData(*one, view) for one in stored]
    pooled = ClientData(*samples(12, 100), view)
    own = [torch.arange(i, 12, len(SIZES)) for i in range(len(SIZES))]
    return FederatedData(dict(enumerate(clients)), TestData(clients, pooled, own, None), CLASSES)


def problem(method, hidden=0, rate=0.05, settings=None, **changes):
    entry = {"method": method, "hidden": hidden, "learning-rate": rate, "settings": settings or {}}
    return made(entry, **changes)


def made(entry, name="mine", **changes):
    chosen = head_settings(name, entry)
    values = {key.replace("_", "-"): value for key, value in vars(training(**changes)).items()}
    return head_problem(chosen, head_training(chosen, 0, values), data())


@pytest.mark.parametrize("method", sorted(METHODS.keys() - NOT_ON_FEATURES))
def test_every_method_trains_a_head_with_a_hidden_layer(method):
    of = problem(method, 4, 0.02, PARAMS["train"][method] | SMALL.get(method, {}))
    federation, told = play(of)
    assert of.algorithm.name == "mine"
    assert of.training.learning_rate == 0.02
    assert told[-1].terms["loss"] < told[0].terms["loss"]
    assert {value.shape for value in federation.shared.values()} == {(4, M), (4,), (3, 4), (3,)}


def test_limits_hold_for_linear_heads():
    fedavg, local = play(problem("fedavg"))[0], play(problem("local"))[0]
    assert same(play(problem("fedprox", settings={"mu": 0.0}))[0], fedavg)
    ditto, _ = play(problem("ditto", settings={"attraction": 0.0}))
    assert equal(ditto.shared, fedavg.shared)
    for alone, both in zip(local.members, ditto.members, strict=True):
        assert all(torch.equal(alone.private[name], w.flatten()) for name, w in both.memory.items())


def test_a_linear_head_is_a_softmax_regression():
    """One full-batch step from zero weights: W = η/n Σ (y − 1/d) xᵀ."""
    settings = {"epochs": 1, "batch_size": 99, "momentum": 0.0, "weight_decay": 0.0}
    of = problem("fedavg", rate=0.5, **settings)
    for weight in of.model.parameters():
        nn.init.zeros_(weight)
    federation, _ = play(replace(of, sizes=of.sizes[:1]), rounds=1)
    one = of.clients[0]
    errors = np.eye(CLASSES)[one.label.numpy()] - 1 / CLASSES
    expected = 0.5 * errors.T @ one.view(one.stored).double().numpy() / len(one)
    np.testing.assert_allclose(federation.shared["classifier.weight"], expected, atol=1e-6)


@pytest.mark.parametrize("method", ["fedper", "lg-fed", "fedrep", "fedbabu"])
def test_methods_that_divide_layers_refuse_a_linear_head(method):
    with pytest.raises(InputError, match=r"one alone: .* hidden units"):
        problem(method, settings=PARAMS["train"][method])


@pytest.mark.parametrize("name", PARAMS["heads"])
def test_the_parameters_heads_can_be_trained(name):
    entry = PARAMS["heads"][name]
    of = made(entry, name)
    hidden = entry["hidden"]
    layers = [(hidden, M), (CLASSES, hidden)] if hidden else [(CLASSES, M)]
    assert [tuple(value.shape) for value in of.model.parameters() if value.ndim == 2] == layers
    assert (of.algorithm.name, of.training.learning_rate) == (name, entry["learning-rate"])
    _, told = play(of, rounds=1)
    assert np.isfinite(told[-1].terms["loss"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": -1}, r"heads\.mine\.hidden is -1"),
        ({"hidden": 1.5}, r"heads\.mine\.hidden is 1\.5"),
        ({"learning-rate": 0}, r"heads\.mine\.learning-rate is 0"),
        ({"learning-rate": "fast"}, r"heads\.mine\.learning-rate is 'fast'"),
        ({"settings": 3}, r"heads\.mine\.settings is 3"),
        ({"depth": 3}, r"heads\.mine of the parameters must hold method, hidden"),
        ({"method": "fedsgd"}, r"heads\.mine\.method is fedsgd: choose from cd2-pfed"),
        ({"method": []}, r"heads\.mine\.method is \[\]: choose from cd2-pfed"),
        ({"method": "fedprox"}, r"heads\.mine\.settings of the parameters lacks mu"),
    ],
)
def test_a_wrong_entry_is_named(change, message):
    entry = {"method": "fedavg", "hidden": 0, "learning-rate": 0.1, "settings": {}} | change
    with pytest.raises(InputError, match=message):
        made(entry)


def test_initial_weights_come_from_the_generator_alone():
    one, other = (build_head(M, 4, 3, generator(1)).state_dict() for _ in range(2))
    assert equal(one, other)
    assert list(build_head(M, 0, 3, generator()).state_dict()) == [
        "classifier.weight", "classifier.bias",
    ]  # fmt: skip
