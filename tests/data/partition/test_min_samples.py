from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pfl.data.partition.min_samples import _level, reroute, top_up

SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 5))
COUNTS = SHAPES.flatmap(lambda shape: arrays(np.int64, shape, elements=st.integers(0, 9)))
SEEDS = st.integers(0, 2**32 - 1)


def one_by_one(surplus, available, need):
    """Take single samples from whoever has the largest surplus."""
    surplus, left = surplus.copy(), available.copy()
    while need and ((surplus > 0) & (left > 0)).any():
        giver = max(np.flatnonzero((surplus > 0) & (left > 0)), key=lambda k: (surplus[k], -k))
        surplus[giver] -= 1
        left[giver] -= 1
        need -= 1
    return available - left


@given(
    pairs=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=8),
    need=st.integers(1, 40),
)
def test_level_is_the_loop_that_takes_from_the_largest_surplus(pairs, need):
    surplus, available = np.array(pairs).T
    taken = _level(surplus, available, need)
    loop = one_by_one(surplus, available, need)
    assert taken.sum() == loop.sum()
    assert (taken <= np.minimum(surplus, available)).all()
    # whoever gave is left with the same surplus, up to which of equals gave the last one
    assert sorted(surplus - taken) == sorted(surplus - loop)


@given(count=COUNTS, data=st.data(), seed=SEEDS)
def test_top_up_meets_the_minimum_whenever_there_are_enough_samples(count, data, seed):
    minimum = data.draw(st.integers(0, int(count.sum()) // len(count)))
    rng = np.random.default_rng(seed)
    result = top_up(count, rng.random(count.shape), np.ones(count.shape, bool), minimum, rng)
    assert (result.sum(1) >= minimum).all()
    assert (result >= 0).all()
    assert np.array_equal(result.sum(0), count.sum(0))
    enough = count.sum(1) >= minimum
    assert (result[enough] <= count[enough]).all()
    assert (result[~enough].sum(1) == minimum).all()


def test_top_up_takes_the_preferred_class_from_the_largest_client():
    count = np.array([[0, 0, 0], [9, 20, 0], [9, 8, 9]])
    preference = np.array([[0.1, 0.6, 0.3], [1, 0, 0], [1, 0, 0]])
    result = top_up(count, preference, np.ones((3, 3), bool), 4, np.random.default_rng(0))
    assert result.tolist() == [[0, 4, 0], [9, 16, 0], [9, 8, 9]]


@given(count=COUNTS, seed=SEEDS, minimum=st.integers(0, 6), spread=st.floats(0, 1))
def test_reroute_finds_a_deal_exactly_when_one_exists(count, seed, minimum, spread):
    allowed = (count > 0) | (np.random.default_rng(seed).random(count.shape) < spread)
    result = reroute(count, allowed, minimum)
    assert (result is not None) == deal_exists(count.sum(0), allowed, minimum)
    if result is not None:
        assert (result.sum(1) >= minimum).all()
        assert (result >= 0).all()
        assert np.array_equal(result.sum(0), count.sum(0))
        assert not result[~allowed].any()


def deal_exists(size, allowed, minimum):
    """Hall's condition: every group of clients can reach samples enough for all its members."""
    clients = range(len(allowed))
    return all(
        size[allowed[list(group)].any(0)].sum() >= minimum * len(group)
        for n in clients
        for group in combinations(clients, n + 1)
    )
