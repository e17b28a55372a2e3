import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.errors import InputError
from pfl.privacy.secure_aggregation.neighbors import (
    COMPLETE,
    DISCLOSURE,
    REFUSAL,
    disclosure,
    draw,
    enough,
    refusal,
    threshold,
)


@given(
    st.lists(st.integers(0, 10**6), min_size=2, max_size=30, unique=True),
    st.integers(2, 12),
    st.integers(0, 2**32 - 1),
)
def test_neighbors_are_mutual_enough_and_connected(clients, asked, seed):
    graph = draw(clients, asked, np.random.default_rng(seed))
    assert graph.keys() == set(clients)
    assert all(u in graph[v] and u != v for u in graph for v in graph[u])
    (degree,) = {len(peers) for peers in graph.values()}
    assert min(asked, len(clients) - 1) <= degree <= min(asked + 1 + (asked % 2), len(clients) - 1)
    assert connected(graph, set(clients))


def connected(graph, left):
    """Whether the clients that are left reach each other through each other."""
    todo, seen = [next(iter(left))], set()
    while todo:
        seen.add(one := todo.pop())
        todo.extend((graph[one] & left) - seen)
    return seen == left


def test_places_on_the_ring_are_drawn():
    graphs = [draw(list(range(20)), 4, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert graphs[0] == graphs[1] != graphs[2]


def test_everybody_is_a_neighbor_up_to_a_hundred_clients_and_few_are_beyond():
    assert enough(2) == 1
    assert enough(COMPLETE) == COMPLETE - 1
    many = [enough(10**power) for power in (3, 4, 5)]
    assert many[0] < 100
    assert many == sorted(many)
    assert many[2] - many[0] < 50
    for clients, k in ((1000, many[0]), (10_000, many[1])):
        assert disclosure(clients, k) <= DISCLOSURE
        assert refusal(clients, k) <= REFUSAL
        assert disclosure(clients, k - 2) > DISCLOSURE or refusal(clients, k - 2) > REFUSAL


@pytest.mark.parametrize("k", [2, 4])
def test_the_chances_are_not_above_their_bounds(k):
    """All ways in which 3 of 15 clients collude and another one is lost."""
    clients = range(15)
    graph = {u: frozenset((u + s) % 15 for s in range(-k // 2, k // 2 + 1) if s) for u in clients}
    disclosed = refused = ways = 0
    for bad in itertools.combinations(clients, 3):
        recovered = any(len(graph[u] & set(bad)) >= threshold(k) for u in clients)
        for lost in set(clients) - set(bad):
            ways += 1
            disclosed += recovered or not connected(graph, set(clients) - {lost, *bad})
            refused += any(len(graph[u] - {lost}) < threshold(k) for u in clients)
    assert 0 < Fraction(disclosed, ways) <= disclosure(15, k)
    assert Fraction(refused, ways) <= refusal(15, k)


@given(st.integers(1, 10**4))
def test_two_thirds_of_the_neighbors_are_needed(neighbors):
    """So that a server that lies needs a third of them to get both secrets of a client."""
    needed = threshold(neighbors)
    assert 3 * (needed - 1) < 2 * neighbors <= 3 * needed
    assert 1 <= needed <= neighbors < 2 * needed


@pytest.mark.parametrize("clients", [[], [3]])
def test_a_sum_of_one_is_refused(clients):
    with pytest.raises(InputError, match="two clients or more"):
        draw(clients, None, np.random.default_rng(0))


def test_one_neighbor_is_refused():
    with pytest.raises(InputError, match="two neighbors or more"):
        draw([1, 2, 3], 1, np.random.default_rng(0))
