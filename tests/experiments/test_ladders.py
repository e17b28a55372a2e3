"""The search climbs to a summit, within its budget, and says what it does not know."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from experiments.ladders import LADDERS, OWN, STARTS, entry, ladders_of, search
from pfl.training.head_settings import head_settings
from pfl.training.methods.registry import make_algorithm
from pfl.training.networks import build_head
from tests.federations import generator
from tests.workspace import ROOT

PARAMS = YAML(typ="safe", pure=True).load(ROOT / "params.yaml")
START = entry("fedavg-ft", epochs=5, learning_rate=0.01)
RATES = LADDERS["learning-rate"]


def hill(rate, own_rate, epochs):
    """A measure with one summit, told in steps from it; counts its calls."""
    calls = []

    def measure(values):
        calls.append(values)
        own = values["settings"]
        steps = (
            RATES.index(values["learning-rate"]) - RATES.index(rate),
            RATES.index(own["learning-rate"]) - RATES.index(own_rate),
            LADDERS[f"{OWN}epochs"].index(own["epochs"]) - LADDERS[f"{OWN}epochs"].index(epochs),
        )
        return -sum(step**2 for step in steps)

    return measure, calls


@given(
    rate=st.sampled_from(RATES), own_rate=st.sampled_from(RATES),
    epochs=st.sampled_from(LADDERS[f"{OWN}epochs"]),
)  # fmt: skip
def test_the_summit_is_found_wherever_it_is(rate, own_rate, epochs):
    measure, calls = hill(rate, own_rate, epochs)
    found = search(START, ladders_of(START), measure, 1000)
    assert found.entry["learning-rate"] == rate
    assert found.entry["settings"] == {"epochs": epochs, "learning-rate": own_rate}
    assert (found.score, found.trainings, found.unknown) == (0, len(calls), ())
    at_ends = {
        name
        for name, value in (
            ("learning-rate", rate), (f"{OWN}learning-rate", own_rate), (f"{OWN}epochs", epochs),
        )
        if value in (LADDERS[name][0], LADDERS[name][-1])
    }  # fmt: skip
    assert set(found.ends) == at_ends


@given(budget=st.integers(1, 12))
def test_the_budget_is_kept_and_what_it_left_out_is_told(budget):
    measure, calls = hill(3.0, 0.0001, 50)
    found = search(START, ladders_of(START), measure, budget)
    assert found.trainings == len(calls) == budget
    assert found.score == max(map(hill(3.0, 0.0001, 50)[0], calls))
    assert found.unknown


def test_settings_that_depend_on_each_other_climb_again():
    """Along a ridge, on which either setting alone pays for two steps at most."""

    def ridge(values):
        both = values["learning-rate"], values["settings"]["learning-rate"]
        a, b = map(RATES.index, both)
        return -0.3 * (a - b - 1) ** 2 + 0.5 * (a + b)

    found = search(START, ladders_of(START), ridge, 1000)
    assert found.entry["learning-rate"] == found.entry["settings"]["learning-rate"] == RATES[-1]


def test_a_tie_changes_nothing_and_nothing_is_measured_twice():
    seen = []
    found = search(START, ladders_of(START), lambda values: seen.append(repr(values)) or 1.0, 99)
    assert found.entry == START
    assert len(seen) == len(set(seen)) == found.trainings == 7


def test_a_linear_head_stays_linear_and_others_try_every_width():
    assert "hidden" not in ladders_of(STARTS["fedavg"])
    wide = search(STARTS["local-mlp"], ladders_of(STARTS["local-mlp"]), lambda v: v["hidden"], 99)
    assert wide.entry["hidden"] == 1024


@pytest.mark.parametrize("name", STARTS)
def test_every_start_is_an_entry_on_its_ladders(name):
    chosen = head_settings(name, STARTS[name])
    make_algorithm(
        chosen.method, build_head(6, chosen.hidden, 3, generator()), chosen.settings, "this"
    )
    assert {"learning-rate"} <= set(ladders_of(STARTS[name]))
    search(STARTS[name], ladders_of(STARTS[name]), lambda values: math.pi, 99)


def test_every_head_of_the_parameters_is_searched():
    assert PARAMS["heads"].keys() <= STARTS.keys()
