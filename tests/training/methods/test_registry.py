"""Methods by name, with settings that are all there, known, and of the right kind."""

import pytest
from ruamel.yaml import YAML

from pfl.errors import InputError
from pfl.training.methods.registry import METHODS, make_algorithm
from pfl.training.networks import build
from tests.federations import generator
from tests.workspace import ROOT

GIVEN = YAML(typ="safe", pure=True).load(ROOT / "params.yaml")["train"]


def make(name, settings, network="lenet5"):
    return make_algorithm(name, build(network, 1, 16, 10, generator()), settings, f"train.{name}")


def test_the_parameters_have_settings_of_every_method():
    assert GIVEN.keys() == METHODS.keys()


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_made_under_its_name(name):
    assert make(name, GIVEN[name], "resnet20").name == name


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("fedsgd", {}, "no method 'fedsgd' .*: choose from cd2-pfed, fedavg"),
        ("fedper", {}, "train.fedper .* lacks private-layers: its settings are private-layers"),
        ("fedavg", {"mu": 1}, "does not know mu: its settings do not exist"),
        ("fedrep", {"private-layers": 1, "depth": 2}, "lacks head-epochs and does not know depth"),
        ("fedper", {"private-layers": 1.5}, "private-layers is 1.5: .* a whole number"),
        ("fedper", {"private-layers": True}, "private-layers is True: .* a whole number"),
        ("fedprox", {"mu": "much"}, "mu is 'much': it must be a number"),
        ("fedprox", {"mu": None}, "mu is None: it must be a number"),
        ("fedprox", {"mu": True}, "mu is True: it must be a number"),
        ("lg-fed", GIVEN["lg-fed"] | {"shared-end": "middle"}, "'middle': choose from top, bottom"),
        ("cd2-pfed", GIVEN["cd2-pfed"] | {"detach": 1}, "detach is 1: it must be true or false"),
        ("cd2-pfed", GIVEN["cd2-pfed"] | {"cross": []}, r"cross is \[\]: choose from both-shared"),
        ("cd2-pfed", GIVEN["cd2-pfed"] | {"ratio": 1.5}, r"ratio is 1\.5"),
    ],
)
def test_a_wrong_setting_is_named(name, settings, message):
    with pytest.raises(InputError, match=message):
        make(name, settings)
