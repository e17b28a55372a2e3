"""Differences client by client: paired, antisymmetric, of the clients that both methods have."""

import numpy as np
import pytest
from scipy import stats

from experiments.coverage import Case
from pfl.report.statistics.difference import difference, effect, p_of_difference
from pfl.report.statistics.intervals import of_counted_difference, of_counts
from pfl.report.statistics.outcomes import Outcomes


def outcomes(a, b, tested):
    return Outcomes([np.array(tested)], {"a": [np.array([a], float)], "b": [np.array([b], float)]})


def test_what_clients_have_in_common_goes_out():
    rng = np.random.default_rng(0)
    easy = rng.integers(5, 90, 30)
    of = outcomes(easy + 2, easy + rng.integers(0, 2, 30), np.full(30, 100))
    found = difference(of, "a", "b")
    assert found.low > 0.01
    assert found.tells
    paired = stats.ttest_1samp(of.accuracies("a")[0] - of.accuracies("b")[0], 0)
    assert (found.low, found.high) == pytest.approx(tuple(paired.confidence_interval()))
    assert p_of_difference(of, "a", "b", 0) < 0.001


@pytest.mark.parametrize("case", [Case(4), Case(6, 2), Case(30, 3, 1.0)], ids=str)
def test_it_is_its_own_negative_the_other_way_round(case):
    of = case.outcomes(np.random.default_rng(1))
    one, other = difference(of, "m0", "m1"), difference(of, "m1", "m0")
    assert (one.value, one.low, one.high) == pytest.approx((-other.value, -other.high, -other.low))
    assert p_of_difference(of, "m0", "m1", 0) == pytest.approx(p_of_difference(of, "m1", "m0", 0))
    first, second = effect(of, "m0", "m1"), effect(of, "m1", "m0")
    assert (first.gain, first.lose, first.same) == (second.lose, second.gain, second.same)
    assert (first.least, first.most) == pytest.approx((-second.most, -second.least))
    assert first.gain + first.lose + first.same == case.clients * case.repeats


def test_the_order_of_clients_and_repeats_changes_nothing():
    of = Case(20, 3, 0.5).outcomes(np.random.default_rng(2))
    places = [np.random.default_rng(r).permutation(20) for r in range(3)]
    order = (2, 0, 1)
    other = Outcomes(
        [of.tested[r][places[r]] for r in order],
        {name: [right[r][:, places[r]] for r in order] for name, right in of.right.items()},
    )
    assert difference(of, "m0", "m1") == difference(other, "m0", "m1")
    assert p_of_difference(of, "m0", "m1", 3) == p_of_difference(other, "m0", "m1", 3)


def test_clients_that_one_method_lacks_are_in_no_difference():
    of = outcomes([3, 3, np.nan, 0], [1, 2, 4, 0], [4, 4, 4, 0])
    assert difference(of, "a", "b").value == 0.375
    found = effect(of, "a", "b")
    assert (found.gain, found.lose, found.same, found.least) == (2, 0, 0, 0.25)
    none = outcomes([np.nan, 1], [1, np.nan], [2, 2])
    assert np.isnan([difference(none, "a", "b").low, p_of_difference(none, "a", "b", 0)]).all()
    assert (effect(none, "a", "b").gain, np.isnan(effect(none, "a", "b").least)) == (0, True)


def test_methods_that_are_equal_for_every_client_are_equal():
    of = outcomes([3, 1, 2], [3, 1, 2], [4, 4, 4])
    found = difference(of, "a", "b")
    assert (found.value, found.low, found.high, found.tells) == (0, 0, 0, False)
    assert p_of_difference(of, "a", "b", 0) == 1


def test_counts_of_one_client_allow_no_more_than_the_worst_pairing():
    """Of all pairings with these counts, the interval is that of the one with most differences."""
    a, b, n = 80, 70, 100
    found = difference(outcomes([a], [b], [n]), "a", "b")
    assert found == of_counted_difference(a, b, n)
    for right_in_both in range(a + b - n, b + 1):
        ones = (a - right_in_both, b - right_in_both)
        paired = np.repeat([1, -1, 0], [*ones, n - sum(ones)])
        assert (found.high - found.low) / 2 >= 1.9599 * paired.std() / n**0.5
    assert not found.tells  # 80 against 70 of 100 may be any luck if pairs are not known
    assert difference(outcomes([95], [40], [n]), "a", "b").tells
    assert difference(outcomes([9, 9], [7, 7], [10, 10]), "a", "b").low < 0  # alike is not certain


def test_runs_that_differ_as_a_whole_are_no_better_methods():
    """A training that is lucky for all clients at once: seeds tell, flips of clients do not."""
    tested = np.full(40, 100)
    rng = np.random.default_rng(4)
    base = rng.integers(40, 60, 40)
    noise = rng.integers(-1, 2, (3, 40))
    lucky = Outcomes(
        [tested],
        {"a": [base + np.array([[0], [12], [3]]) + noise * 1.0], "b": [base[None] * 1.0]},
    )
    steady = Outcomes([tested], {"a": [base + 5.0 + noise], "b": [base[None] * 1.0]})
    assert not difference(lucky, "a", "b").tells
    assert difference(steady, "a", "b").tells
    assert p_of_difference(lucky, "a", "b", 0) > 0.05 > p_of_difference(steady, "a", "b", 0)


def test_trainings_of_repeats_that_disagree_count_as_few():
    tested = [np.full(30, 100)] * 3
    rng = np.random.default_rng(5)
    base = [rng.integers(40, 60, 30) for _ in tested]

    def of(shifts):
        noise = [rng.integers(-3, 4, 30) for _ in tested]
        right = [(b + s + e)[None] * 1.0 for b, s, e in zip(base, shifts, noise, strict=True)]
        return Outcomes(tested, {"a": right, "b": [b[None] * 1.0 for b in base]})

    agree, disagree = of((4, 4, 4)), of((0, 2, 10))
    assert difference(agree, "a", "b").tells
    assert not difference(disagree, "a", "b").tells
    assert p_of_difference(agree, "a", "b", 0) < 0.001
    assert p_of_difference(disagree, "a", "b", 0) > 0.05


def test_counts_of_one_kind_have_the_exact_interval():
    for right in (0, 3, 20):
        exact = stats.binomtest(right, 20).proportion_ci(0.9)
        found = of_counts(right, 20, 0.9)
        assert (found.low, found.high) == pytest.approx((exact.low, exact.high))
