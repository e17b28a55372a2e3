"""Intervals of means: as often right as they say, whatever the order, and honest about few."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from experiments.coverage import Case, measure
from pfl.evaluation.metrics import worst_decile
from pfl.report.statistics import accuracy
from pfl.report.statistics.accuracy import accuracy_intervals, drawn_in
from pfl.report.statistics.outcomes import Outcomes


def one(right, tested):
    """One method, one run, one repeat."""
    return Outcomes([np.array(tested)], {"a": [np.array([right], dtype=float)]})


@pytest.mark.parametrize(
    ("case", "sets", "draws", "least"),
    [
        (Case(5), 500, 4000, 0.92),
        (Case(20), 600, 700, 0.92),
        (Case(100), 250, 500, 0.92),
        (Case(5, repeats=3), 200, 1500, 0.92),
        (Case(20, repeats=3), 250, 600, 0.92),
        (Case(20, repeats=3, luck=1.0), 200, 600, 0.87),  # three repeats tell little of their luck
    ],
    ids=str,
)
def test_intervals_hold_the_truth_as_often_as_is_claimed(case, sets, draws, least):
    shares = measure(case, sets, 1, draws)
    assert least <= shares["mean"] <= 0.98
    assert min(least, 0.88) <= shares["worst"] <= 0.98
    assert min(least, 0.86) <= shares["difference"] <= 0.99
    assert shares["rejected"] <= (0.15 if case.luck else 0.05 + 3 * (0.05 * 0.95 / sets) ** 0.5)


def test_a_binomial_on_measured_accuracies_counts_their_noise_twice():
    """What `drawn_in` is for: drawn accuracies vary as much as measured ones."""
    rng = np.random.default_rng(0)
    tested = rng.integers(5, 30, 2000)
    measured = rng.binomial(tested, rng.beta(9, 1, 2000)) / tested
    plain, reflated = (
        np.var(rng.binomial(tested, shares) / tested)
        for shares in (measured, drawn_in(measured, tested))
    )
    assert plain > 1.3 * measured.var()
    assert reflated == pytest.approx(measured.var(), rel=0.1)


def test_the_worst_of_ten_clients_may_be_worse_than_any_that_was_seen():
    rng = np.random.default_rng(2)
    tested = np.full(10, 20)
    outcomes = one(rng.binomial(tested, 0.85), tested)
    _, worst = accuracy_intervals(outcomes, "a", 0)
    assert worst.value == outcomes.accuracies("a")[0].min()
    assert worst.low < worst.value


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 3))
def test_the_order_of_clients_repeats_runs_and_methods_changes_nothing(seed, repeats, runs):
    rng = np.random.default_rng(seed)
    tested = [rng.integers(0, 9, rng.integers(1, 6)) for _ in range(repeats)]
    right = {
        name: [rng.binomial(n, 0.7, (runs, len(n))).astype(float) for n in tested]
        for name in ("a", "b")
    }
    places = [rng.permutation(len(n)) for n in tested]
    order = rng.permutation(repeats)
    shuffled = Outcomes(
        [tested[r][places[r]] for r in order],
        {
            name: [rng.permutation(right[name][r][:, places[r]], axis=0) for r in order]
            for name in ("b", "a")
        },
    )
    for name in right:
        first, second = (
            np.array([[i.value, i.low, i.high] for i in accuracy_intervals(of, name, 5, 200)])
            for of in (Outcomes(tested, right), shuffled)
        )
        np.testing.assert_allclose(first, second, rtol=0, atol=1e-12)


def test_one_client_is_told_by_its_samples_and_nothing_by_none():
    (mean, worst) = accuracy_intervals(one([27], [30]), "a", 0)
    assert mean == worst
    exact = stats.binomtest(27, 30).proportion_ci(0.95)
    assert (mean.low, mean.high) == pytest.approx((exact.low, exact.high))
    (mean, _) = accuracy_intervals(one([30, 40], [30, 40]), "a", 0)
    assert (mean.value, mean.high) == (1.0, 1.0)
    assert mean.low == pytest.approx(0.025 ** (1 / 70))
    assert np.isnan(accuracy_intervals(one([0], [0]), "a", 0)[0].low)


def test_seeds_of_training_widen_an_interval_and_never_narrow_it():
    """Training again on the same clients does not make them more clients."""
    rng = np.random.default_rng(3)
    tested = np.full(30, 40)
    right = rng.binomial(tested, rng.beta(9, 1, 30)).astype(float)
    once, twice, unlike = (
        accuracy_intervals(Outcomes([tested], {"a": [np.array(runs)]}), "a", 0)
        for runs in ([right], [right, right], [right, np.minimum(right + 4, tested)])
    )
    for mean, again, other in zip(once, twice, unlike, strict=True):
        assert again.high - again.low == pytest.approx(mean.high - mean.low, rel=0.03)
        assert other.high - other.low > 1.2 * (mean.high - mean.low)


def test_repeats_that_differ_by_more_than_clients_explain_widen_an_interval():
    rng = np.random.default_rng(4)
    tested = [np.full(50, 60)] * 3

    def width(means):
        right = [rng.binomial(n, m)[None].astype(float) for n, m in zip(tested, means, strict=True)]
        mean, _ = accuracy_intervals(Outcomes(tested, {"a": right}), "a", 0)
        return mean.high - mean.low

    assert width((0.7, 0.8, 0.9)) > 5 * width((0.8, 0.8, 0.8))


def test_the_worst_tenth_is_that_of_reports():
    rng = np.random.default_rng(5)
    for clients in (1, 9, 10, 11, 37):
        shares = rng.random((3, clients))
        assert accuracy._worst(shares) == pytest.approx([worst_decile(row) for row in shares])


def test_draws_in_parts_are_draws():
    """Memory is bounded for many clients: here the parts are seen at all."""
    tested = np.full(40, 30)
    outcomes = one(np.arange(40) % 30, tested)
    whole = accuracy_intervals(outcomes, "a", 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accuracy, "AT_ONCE", 4000)
        assert accuracy_intervals(outcomes, "a", 0)[0].low == pytest.approx(whole[0].low, abs=0.02)
