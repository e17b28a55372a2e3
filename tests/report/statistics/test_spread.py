"""Variances of means: unbiased, additive, and none where nothing can be known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pfl.report.statistics.spread import Luck, excess, of_clients, of_repeats, of_runs

LUCK = st.builds(Luck, st.sampled_from([0.0, 0.25, 1.0, 3.0]), st.integers(1, 30))


@given(LUCK, LUCK, LUCK)
def test_parts_add_up_in_any_order(a, b, c):
    whole, other = (a + b) + c, c + (b + a)
    assert whole.variance == pytest.approx(other.variance)
    if whole.variance:
        assert whole.freedom == pytest.approx(other.freedom)
        parts = [part.freedom for part in (a, b, c) if part.variance]
        assert min(parts) <= whole.freedom * (1 + 1e-9)
        assert whole.freedom <= sum(parts) * (1 + 1e-9)


@given(LUCK.filter(lambda luck: luck.variance > 0), st.floats(0.5, 0.999))
def test_an_interval_ends_where_its_test_rejects(luck, level):
    assert luck.p(luck.reach(level)) == pytest.approx(1 - level)


def test_one_repeat_of_clients_is_the_textbook_s_t_interval():
    values = np.random.default_rng(0).normal(size=12)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert of_clients([values]).reach(0.9) == pytest.approx((high - low) / 2)
    assert of_clients([values]).p(values.mean()) == pytest.approx(stats.ttest_1samp(values, 0)[1])


def test_variances_are_those_that_data_are_drawn_with():
    """a_rk = u_r + v_rk: in the mean over many draws both parts are found."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(4000):
        values = [rng.normal(0, 1) + rng.normal(0, 2, size) for size in (4, 6, 10)]
        clients, luck = of_clients(values), of_repeats(values)
        found.append((clients.variance, luck.variance))
    clients, luck = np.mean(found, axis=0)
    assert clients == pytest.approx(4 * (1 / 4 + 1 / 6 + 1 / 10) / 9, rel=0.03)
    assert 1 / 3 < luck < 1 / 2  # not below the truth: a negative estimate counts as none


def test_runs_on_the_same_clients_differ_by_what_they_differ_in_alone():
    rng = np.random.default_rng(2)
    clients = rng.normal(0, 5, 40)
    found = [
        of_runs(clients + rng.normal(0, 1, (3, 1)) + rng.normal(0, 0.5, (3, 40))).variance
        for _ in range(2000)
    ]
    assert np.mean(found) == pytest.approx(1 / 3, rel=0.1)


def test_of_one_nothing_is_known():
    assert of_repeats([np.arange(3.0)]).variance == 0
    assert of_runs(np.ones((1, 4))).variance == 0
    assert of_clients([np.array([0.5]), np.array([1.0])]) == Luck(0.0, 0)
    assert of_clients([np.full(7, 0.1)]).variance == 0
    assert excess([1.0, 1.0], 0.5).variance == 0
    assert Luck(0.0, 0).reach(0.95) == 0
    assert Luck(0.0, 0).p(1.0) == 1
