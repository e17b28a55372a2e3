"""Weights of families in a sum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl.fedhip.selection.stacking import PENALTY, stack
from tests import oracles

seeds = st.integers(0, 2**32 - 1)


def drawn(seed, n=30, d=4, members=3):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, d, n)
    truth = np.eye(d)[labels]
    sharp = rng.uniform(0, 3, members)
    return [s * truth + rng.normal(size=(n, d)) for s in sharp], labels


def center_of(members):
    """Half of each of the first two."""
    return np.array([0.5, 0.5, 0.0, 0.0, 0.0])[: len(members)]


def objective(weights, members, labels):
    center = center_of(members)
    penalty = np.full(len(members), PENALTY)
    return oracles.penalized_entropy(weights, members, labels, center, penalty)[0]


@settings(max_examples=50)
@given(seeds, st.integers(1, 60), st.integers(2, 4), st.floats(0.01, 30))
def test_it_is_never_worse_than_what_it_is_drawn_to_nor_than_what_is_near(seed, n, members, scale):
    scores, labels = drawn(seed, n, members=members)
    scores = [scale * one for one in scores]
    found = stack(scores, labels)
    assert (found >= 0).all()
    least = objective(found, scores, labels)
    assert least <= objective(center_of(scores), scores, labels) + 1e-9
    for j in range(members):
        for step in (0.02, -0.02):
            moved = np.maximum(found + step * np.eye(members)[j], 0.0)
            assert objective(moved, scores, labels) >= least - 1e-6


@settings(max_examples=20)
@given(seeds, st.permutations(range(4)))
def test_classes_in_another_order_have_the_same_weights(seed, order):
    scores, labels = drawn(seed)
    other = stack([one[:, order] for one in scores], np.argsort(order)[labels])
    np.testing.assert_allclose(other, stack(scores, labels), atol=1e-3)


def test_one_member_has_the_weight_one():
    scores, labels = drawn(0, members=1)
    assert stack(scores, labels).tolist() == [1.0]


@pytest.mark.parametrize("samples", [1, 3])
def test_few_samples_leave_the_first_two_nearly_alone(samples):
    scores, labels = drawn(0, samples)
    assert np.abs(stack(scores, labels) - center_of(scores)).max() < 0.05 * samples


def test_many_samples_find_the_useful_one():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 3000)
    useful = 3 * np.eye(4)[labels] + rng.normal(size=(3000, 4))
    found = stack([rng.normal(size=(3000, 4)), useful], labels)
    assert found[1] > 0.5
    assert found[0] < 0.3


def test_scores_that_are_no_numbers_leave_what_it_is_drawn_to():
    scores, labels = drawn(0)
    scores[1][3, 2] = np.nan
    assert stack(scores, labels).tolist() == [0.5, 0.5, 0.0]
