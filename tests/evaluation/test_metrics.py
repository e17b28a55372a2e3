import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.evaluation.metrics import accuracy, summarize, summarize_losses, worst_decile

HITS = st.lists(
    st.integers(0, 50).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    min_size=1,
    max_size=40,
).map(lambda pairs: np.array(pairs).T)


@given(drawn=HITS)
def test_accuracy_is_unknown_exactly_without_test_samples(drawn):
    hits, samples = drawn
    values = accuracy(hits, samples)
    assert np.array_equal(np.isnan(values), samples == 0)
    assert ((values >= 0) & (values <= 1))[samples > 0].all()


@given(drawn=HITS)
def test_weighted_mean_is_the_accuracy_of_all_samples_together(drawn):
    hits, samples = drawn
    summary = summarize(accuracy(hits, samples), samples)
    if samples.sum() == 0:
        assert all(math.isnan(value) for value in summary.values())
    else:
        assert summary["weighted"] == pytest.approx(hits.sum() / samples.sum(), abs=1e-12)


@given(drawn=HITS.filter(lambda drawn: drawn[1].any()), seed=st.integers(0, 2**32 - 1))
def test_clients_without_test_samples_and_the_order_of_clients_change_nothing(drawn, seed):
    hits, samples = drawn
    order = np.random.default_rng(seed).permutation(len(hits))
    more = np.append(hits[order], 0), np.append(samples[order], 0)
    once, again = (summarize(accuracy(h, n), n) for h, n in (drawn, more))
    assert again == pytest.approx(once, abs=1e-12)


@given(drawn=HITS.filter(lambda drawn: drawn[1].any()))
def test_worst_decile_is_below_the_mean_and_above_the_worst(drawn):
    values = accuracy(*drawn)
    known = values[drawn[1] > 0]
    summary = summarize(values, drawn[1])
    assert known.min() - 1e-12 <= summary["worst-decile"] <= summary["mean"] + 1e-12


@pytest.mark.parametrize(
    ("clients", "worst"), [(1, [0]), (9, [0]), (10, [0]), (11, [0, 1]), (20, [0, 1])]
)
def test_worst_decile_rounds_the_number_of_clients_up(clients, worst):
    values = np.random.default_rng(0).permutation(np.arange(float(clients)))
    assert worst_decile(values) == np.mean(worst)


def test_summary_of_a_known_case():
    summary = summarize(np.array([0.5, 1.0, np.nan]), np.array([4, 12, 0]))
    assert summary == {"mean": 0.75, "weighted": 0.875, "std": 0.25, "worst-decile": 0.5}


def test_without_numbers_of_samples_only_the_weighted_mean_is_unknown():
    values = np.array([0.5, 1.0, np.nan])
    told, same = summarize(values, None), summarize(values, np.array([1, 1, 1]))
    assert math.isnan(told.pop("weighted"))
    assert same.pop("weighted") == 0.75
    assert told == same


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, np.nan, 3.0], (2.0, 3.0)),
        (np.arange(20.0), (9.5, 18.5)),
        ([np.nan], (np.nan, np.nan)),
    ],
)
def test_of_losses_the_largest_are_the_worst(values, expected):
    np.testing.assert_equal(summarize_losses(np.array(values)), expected)
