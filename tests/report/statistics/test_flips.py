"""The sign-flip test is exact where it says so, and valid in any case."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pfl.report.statistics import flips
from pfl.report.statistics.flips import flip_p


def by_scipy(values):
    found = stats.permutation_test(
        (values,), np.sum, permutation_type="samples", n_resamples=2 ** len(values) + 1
    )
    return found.pvalue


@pytest.mark.parametrize("seed", range(5))
def test_few_clients_are_tested_exactly(seed):
    values = np.random.default_rng(seed).normal(0.5, 1, 9)
    assert flip_p(values, 0) == pytest.approx(by_scipy(values))


def test_random_flips_come_near_the_exact_p(monkeypatch):
    values = np.random.default_rng(7).normal(0.4, 1, 12)
    exact = flip_p(values, 0)
    monkeypatch.setattr(flips, "EXACT", 0)
    assert flip_p(values, 0) == pytest.approx(exact, abs=4 * (exact / flips.FLIPS) ** 0.5)
    assert flip_p(values, 0) == flip_p(values[::-1], 0) != flip_p(values, 1)
    assert flip_p(np.full(99, 0.1), 0) == 1 / (1 + flips.FLIPS)
    whole = flip_p(values, 3)
    monkeypatch.setattr(flips, "AT_ONCE", 12 * flips.FLIPS)
    assert flip_p(values, 3) == whole


@settings(max_examples=30)
@given(st.lists(st.integers(-3, 3), max_size=12))
def test_signs_and_zeros_change_nothing(values):
    found = flip_p(np.array(values, dtype=float) / 7, 0)
    assert found == flip_p(-np.array([*values, 0, 0], dtype=float) / 7, 0)
    assert 0 < found <= 1
    if not any(values):
        assert found == 1


def test_equal_methods_are_told_apart_as_seldom_as_is_claimed():
    """Type I error at 5 and 20 %, within four deviations: differences that are skewed in size."""
    rng = np.random.default_rng(0)
    p = np.array(
        [
            flip_p(rng.choice((-1, 1), size=10) * rng.exponential(size=10) ** 2, 0)
            for _ in range(1000)
        ]
    )
    for level in (0.05, 0.2):
        assert np.mean(p <= level) == pytest.approx(level, abs=4 * (level / 1000) ** 0.5)
