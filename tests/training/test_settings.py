"""Training settings: one home for their ranges, and errors by the key that the user has set."""

import pytest
from ruamel.yaml import YAML

from pfl.errors import InputError
from pfl.training.settings import SETTINGS, Training
from tests.workspace import ROOT

PARAMS = YAML(typ="safe", pure=True).load(ROOT / "params.yaml")
ROUNDS = PARAMS["rounds"]


def attribute(key):
    return key.replace("-", "_")


def test_the_parameters_have_every_setting():
    training = Training.of("rounds", 3, ROUNDS)
    assert training.seed == 3
    assert all(getattr(training, attribute(key)) == ROUNDS[key] for key in SETTINGS)
    assert SETTINGS.keys() - PARAMS["head-rounds"].keys() == {"learning-rate", "precision"}


@pytest.mark.parametrize("section", ["rounds", "head-rounds"])
@pytest.mark.parametrize("key", SETTINGS)
def test_every_wrong_setting_is_named_by_its_key(section, key):
    place = "heads.mine" if key == "learning-rate" else section
    for wrong in (None, "x", -1, [1]):
        with pytest.raises(InputError, match=rf"^{place}\.{key} is "):
            Training.of(section, 0, ROUNDS | {key: wrong}, "heads.mine")


@pytest.mark.parametrize(
    ("key", "value", "fits"),
    [
        ("fraction", 0.0, False), ("fraction", 1, True), ("client-dropout", 0.0, True),
        ("client-dropout", 1.0, False), ("validation-fraction", 1.0, False),
        ("momentum", 1.0, True), ("learning-rate", 0.0, False), ("learning-rate", 1e30, True),
        ("learning-rate-decay", float("inf"), False), ("weight-decay", 0, True),
        ("rounds", 0, False), ("evaluate-every", 1, True), ("epochs", 1.0, False),
    ],
)  # fmt: skip
def test_ends_of_ranges(key, value, fits):
    values = ROUNDS | {key: value}
    if fits:
        assert getattr(Training.of("rounds", 0, values), attribute(key)) == value
        return
    with pytest.raises(InputError, match=rf"^rounds\.{key} is {value}: "):
        Training.of("rounds", 0, values)


def test_the_learning_rate_decays_from_the_first_round():
    training = Training.of("rounds", 0, ROUNDS | {"learning-rate": 0.5, "learning-rate-decay": 0.1})
    assert [training.rate(t) for t in (1, 2, 3)] == pytest.approx([0.5, 0.05, 0.005])


def test_a_runs_file_keeps_its_names():
    facts = Training.of("rounds", 0, ROUNDS).facts
    assert list(facts) == [
        "seed", "rounds", "epochs", "batch_size", "lr", "lr_decay", "momentum", "nesterov",
        "weight_decay", "fraction", "client_dropout", "bf16",
    ]  # fmt: skip
