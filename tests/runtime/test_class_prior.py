"""Laws of a client's class prior."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.runtime.class_prior import CONCENTRATIONS, log_prior_ratio, shares

COUNTS = st.lists(st.integers(0, 50), min_size=2, max_size=6)


@given(own=COUNTS, seed=st.integers(0, 99), smoothing=st.floats(1e-3, 10))
def test_the_ratio_is_that_of_the_priors(own: list[int], seed: int, smoothing: float) -> None:
    counts = np.array(own)
    others = np.random.default_rng(seed).integers(1, 30, len(own))
    everybody = shares(counts + others)
    pseudo = smoothing * len(own)
    probability = (counts + pseudo * everybody) / (counts.sum() + pseudo)
    assert probability.sum() == pytest.approx(1.0)
    ratio = np.exp(log_prior_ratio(counts, everybody, smoothing))
    np.testing.assert_allclose(ratio, probability / everybody, rtol=1e-12)


@given(own=COUNTS, smoothing=st.floats(1e-3, 10))
def test_a_client_that_is_like_everybody_has_no_prior_of_its_own(
    own: list[int], smoothing: float
) -> None:
    counts = np.array(own)
    present = counts > 0
    ratio = log_prior_ratio(counts, shares(counts), smoothing)
    np.testing.assert_allclose(ratio[present], 0.0, atol=1e-12)


def test_without_samples_the_ratio_is_one_and_classes_that_nobody_has_stay_finite() -> None:
    nobody = np.zeros(3, np.int64)
    assert log_prior_ratio(nobody, np.array([0.5, 0.5, 0.0]), 0.1).tolist() == [0.0, 0.0, 0.0]
    ratio = log_prior_ratio(np.array([7, 0, 0]), np.array([0.5, 0.5, 0.0]), 0.1)
    assert np.isfinite(ratio).all()
    assert ratio[0] > 0 > ratio[1]


def test_counts_with_noise_below_zero_count_as_none() -> None:
    assert shares(np.array([-3.0, 1.0, 3.0])).tolist() == [0.0, 0.25, 0.75]
    assert shares(np.zeros(4)).tolist() == [0.25] * 4


@given(own=COUNTS, seed=st.integers(0, 99))
def test_several_clients_at_once_are_as_one_by_one(own: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = np.stack([np.array(own), rng.integers(0, 9, len(own))])
    everybody = shares(rows.sum(0) + 1)
    both = log_prior_ratio(rows, everybody, 0.3)
    for row, one in zip(rows, both, strict=True):
        np.testing.assert_array_equal(log_prior_ratio(row, everybody, 0.3), one)


def polya(own: list[int], everybody: np.ndarray, concentration: float) -> float:
    """Probability of drawing these samples one after another, class by class."""
    probability, drawn = 1.0, 0
    for count, share in zip(own, everybody.tolist(), strict=True):
        for held in range(count):
            probability *= (held + concentration * share) / (drawn + concentration)
            drawn += 1
    return probability


@given(own=st.lists(st.integers(0, 6), min_size=2, max_size=4).filter(sum), seed=st.integers(0, 99))
def test_the_strength_of_the_prior_is_what_the_counts_say_of_it(own: list[int], seed: int) -> None:
    counts = np.array(own)
    others = np.random.default_rng(seed).integers(1, 30, len(own))
    everybody = shares(counts + others)
    weights = [polya(own, everybody, a) for a in CONCENTRATIONS]
    means = [(counts + a * everybody) / (counts.sum() + a) for a in CONCENTRATIONS]
    expected = sum(w * mean for w, mean in zip(weights, means, strict=True)) / math.fsum(weights)
    found = np.exp(log_prior_ratio(counts, everybody, None)) * everybody
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_five_samples_of_one_class_are_peculiar_and_five_of_five_are_not() -> None:
    everybody = np.full(10, 0.1)
    peculiar = log_prior_ratio(np.array([5] + [0] * 9), everybody, None)
    usual = log_prior_ratio(np.array([1] * 5 + [0] * 5), everybody, None)
    assert peculiar.max() - peculiar.min() > 4 * (usual.max() - usual.min())
    nobody = log_prior_ratio(np.zeros(10, np.int64), everybody, None)
    np.testing.assert_allclose(nobody, 0.0, atol=1e-14)
