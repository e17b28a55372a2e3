"""Weights of scores: the solver against a general one, and its ends."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from pfl.fedhip.selection.logistic import fit
from tests import oracles

seeds = st.integers(0, 2**32 - 1)
KINDS = ("informed", "random", "opposed", "separating", "zero", "huge", "tiny", "again")


def term(kind, labels, classes, rng):
    """Scores of one kind."""
    truth, noise = np.eye(classes)[labels], rng.normal(size=(len(labels), classes))
    return {
        "informed": 2 * truth + noise,
        "random": noise,
        "opposed": noise - 2 * truth,
        "separating": 8 * truth,
        "zero": np.zeros_like(noise),
        "huge": 1e3 * (truth + 0.3 * noise),
        "tiny": 1e-3 * (truth + 0.3 * noise),
        "again": truth,
    }[kind]


def general(terms, labels, center, penalty):
    """By scipy's quasi-Newton method with bounds."""
    found = minimize(
        oracles.penalized_entropy,
        center,
        args=(terms, labels, center, penalty),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * len(center),
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000},
    )
    return found.x, found.fun


def check(terms, labels, center, penalty):
    found = fit([one[:, None, :] for one in terms], labels, center, penalty)
    weights, least = found.weights[0], found.objective[0]
    value, _ = oracles.penalized_entropy(weights, terms, labels, center, penalty)
    assert least == pytest.approx(value, abs=1e-9, rel=1e-12)
    expected, lowest = general(terms, labels, center, penalty)
    assert (weights >= 0).all()
    assert least <= lowest + 1e-5
    assert least >= lowest - 1e-5 * (1 + lowest)
    # The penalty makes the objective so convex that weights are no farther than this.
    np.testing.assert_allclose(weights, expected, atol=np.sqrt(2e-5 / penalty.min()))


@settings(max_examples=60)
@given(
    seeds,
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=4),
    st.integers(1, 25),
    st.integers(2, 6),
    st.sampled_from([0.5, 4.0, 32.0]),
    st.booleans(),
)
def test_it_is_the_minimum_that_a_general_method_finds(seed, kinds, n, d, penalty, first):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, d, n)
    terms = [term(kind, labels, d, rng) for kind in kinds]
    center = np.eye(len(kinds))[0] if first else np.ones(len(kinds))
    check(terms, labels, center, np.full(len(kinds), penalty))


@pytest.mark.parametrize("classes", [2, 1000])
@pytest.mark.parametrize("kinds", [("informed", "again"), ("separating", "opposed", "zero")])
def test_two_and_a_thousand_classes(classes, kinds):
    rng = np.random.default_rng(classes)
    labels = rng.integers(0, classes, 40)
    terms = [term(kind, labels, classes, rng) for kind in kinds]
    check(terms, labels, np.ones(len(kinds)), np.full(len(kinds), 4.0))


@settings(max_examples=40)
@given(seeds, st.lists(st.sampled_from(KINDS), min_size=2, max_size=3), st.integers(0, 2))
def test_no_neighbour_is_better(seed, kinds, axis):
    rng = np.random.default_rng(seed)
    labels, center = rng.integers(0, 3, 12), np.ones(len(kinds))
    terms = [term(kind, labels, 3, rng) for kind in kinds]
    found = fit([one[:, None, :] for one in terms], labels, center, 4 * center)
    for step in (-0.05, 0.05):
        moved = found.weights[0].copy()
        moved[axis % len(kinds)] = max(0.0, moved[axis % len(kinds)] + step)
        value, _ = oracles.penalized_entropy(moved, terms, labels, center, 4 * center)
        assert value >= found.objective[0] - 1e-6


@settings(max_examples=30)
@given(seeds, st.integers(1, 6), st.integers(1, 12))
def test_many_problems_at_once_are_as_one_by_one(seed, problems, n):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, n)
    own = np.stack([term(k, labels, 4, rng) for k in rng.choice(KINDS, problems)], axis=1)
    shared = term("random", labels, 4, rng)[:, None, :]
    center, penalty = np.ones(2), np.full(2, 4.0)
    together = fit([own, shared], labels, center, penalty)
    for b in range(problems):
        alone = fit([own[:, b : b + 1], shared], labels, center, penalty)
        np.testing.assert_allclose(together.objective[b], alone.objective[0], atol=1e-5)
        np.testing.assert_allclose(together.weights[b], alone.weights[0], atol=2e-3)


def test_terms_that_say_nothing_or_the_same_keep_and_share_the_weight():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 30)
    informed, nothing = 0.5 * term("informed", labels, 3, rng), np.zeros((30, 3))
    one, two = (x[:, None, :] for x in (informed, nothing))
    found = fit([one, one, two], labels, np.array([1.0, 0.0, 0.3]), np.full(3, 4.0)).weights[0]
    assert found[2] == pytest.approx(0.3, abs=1e-9)
    assert found[1] > 0.1
    assert found[0] - 1.0 == pytest.approx(found[1], abs=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_no_number_makes_its_problem_alone_infinite(bad):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 10)
    terms = rng.normal(size=(10, 3, 3))
    sound = fit([terms], labels, np.ones(1), np.ones(1))
    broken = terms.copy()
    broken[4, 1, 2] = bad
    found = fit([broken], labels, np.ones(1), np.ones(1))
    assert found.objective[1] == np.inf
    assert np.isfinite(found.weights).all()
    np.testing.assert_allclose(found.objective[[0, 2]], sound.objective[[0, 2]], atol=1e-5)
    shared = terms[:, :1].copy()
    shared[0, 0, 0] = bad
    assert (fit([terms, shared], labels, np.ones(2), np.ones(2)).objective == np.inf).all()
