"""Laws of a client's class prior."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.runtime.class_prior import log_prior_ratio, prior, shares

COUNTS = st.lists(st.integers(0, 50), min_size=2, max_size=6)


@given(own=COUNTS, seed=st.integers(0, 99), smoothing=st.floats(1e-3, 10))
def test_the_ratio_is_that_of_the_priors(own: list[int], seed: int, smoothing: float) -> None:
    counts = np.array(own)
    others = np.random.default_rng(seed).integers(1, 30, len(own))
    everybody = shares(counts + others)
    probability = prior(counts, everybody, smoothing)
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
