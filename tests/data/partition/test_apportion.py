import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.data.partition.apportion import apportion, assign, deal_in_proportion

SEEDS = st.integers(0, 2**32 - 1)


@given(
    total=st.integers(0, 2**30 - 1),
    weights=st.lists(st.integers(0, 2**26), min_size=1, max_size=60).filter(any),
    seed=SEEDS,
)
def test_parts_are_the_quota_rounded_down_or_up_and_sum_to_the_total(total, weights, seed):
    parts = apportion(total, np.array(weights), np.random.default_rng(seed))
    assert parts.sum() == total
    for part, weight in zip(parts.tolist(), weights, strict=True):
        low, rest = divmod(total * weight, sum(weights))
        assert part in ((low, low + 1) if rest else (low,))


def test_mean_of_a_part_is_its_quota():
    weights = np.array([1, 2, 3, 5, 9])
    rng = np.random.default_rng(0)
    mean = np.mean([apportion(7, weights, rng) for _ in range(20_000)], axis=0)
    np.testing.assert_allclose(mean, 7 * weights / 20, atol=0.015)


def test_order_of_clients_is_random_so_that_neighbors_are_not_tied():
    rng = np.random.default_rng(1)
    parts = np.array([apportion(2, np.ones(4, int), rng) for _ in range(2000)])
    together = (parts[:, 0] == 1) & (parts[:, 1] == 1)
    assert together.any()  # in a fixed order clients 0 and 1 could never be drawn together


@given(
    count=st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3), min_size=1, max_size=6),
    seed=SEEDS,
)
def test_assign_gives_each_client_its_counts(count, seed):
    count = np.array(count)
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.repeat(np.arange(3), count.sum(0)))
    owner = assign(label, count, rng)
    for c in range(3):
        assert np.array_equal(np.bincount(owner[label == c], minlength=len(count)), count[:, c])


def test_assign_picks_samples_at_random():
    label = np.zeros(100, int)
    count = np.array([[50], [50]])
    first, second = (assign(label, count, np.random.default_rng(seed)) for seed in (0, 1))
    assert not np.array_equal(first, second)
    assert 10 < (first[:50] == 0).sum() < 40  # neither the first nor the last half


def test_follow_leaves_samples_of_unheld_classes_to_nobody():
    count = np.array([[4, 0, 0], [0, 0, 2]])
    label = np.array([0, 1, 2, 1, 0])
    owner = deal_in_proportion(count, label, np.random.default_rng(0))
    assert owner.tolist() == [0, -1, 1, -1, 0]


@pytest.mark.parametrize("tests", [0, 1, 7])
def test_follow_rounds_each_class_down_or_up(tests):
    count = np.array([[3, 1], [1, 1], [2, 0]])
    label = np.repeat([0, 1], tests)
    owner = deal_in_proportion(count, label, np.random.default_rng(0))
    for c in range(2):
        parts = np.bincount(owner[label == c], minlength=3)
        quota = tests * count[:, c] / count[:, c].sum()
        assert (parts >= np.floor(quota)).all()
        assert (parts <= np.ceil(quota)).all()
