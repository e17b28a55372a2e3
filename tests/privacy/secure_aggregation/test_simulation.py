import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl.errors import InputError
from pfl.privacy.secure_aggregation.neighbors import enough, threshold
from pfl.privacy.secure_aggregation.simulation import Lost, secure_sum
from tests.privacy.secure_aggregation.steps import random_vectors


@st.composite
def losses(draw, clients):
    """Who is lost before each of three steps; mostly few."""
    some = st.frozensets(st.integers(0, clients - 1), max_size=max(1, clients // 3))
    return Lost(draw(some), draw(some), draw(some))


def summed(clients, neighbors, lost, seed=0):
    vectors = random_vectors(clients, 4)
    entropy = np.random.default_rng(seed).bytes
    return secure_sum(range(clients), lambda u: vectors[u], entropy, neighbors, lost)[0]


def plain(clients, lost):
    """The sum of those who have sent their vectors."""
    gone = lost.before_sharing | lost.before_masking
    return sum(v for u, v in enumerate(random_vectors(clients, 4)) if u not in gone)


def enough_remain(clients, lost):
    """Whether at each step all that matter have t of the K - 1 others left, said plainly."""
    needed = threshold(clients - 1)
    sharing = set(range(clients)) - lost.before_sharing
    sending = sharing - lost.before_masking
    answering = sending - lost.before_answering
    return (
        len(sharing) - 1 >= needed
        and len(sending) - 1 >= needed
        and all(len(answering - {u}) >= needed for u in sharing)
    )


@given(st.data(), st.integers(2, 8), st.integers(0, 2**32 - 1))
def test_the_sum_is_that_of_the_clients_that_stay_or_refused(data, clients, seed):
    lost = data.draw(losses(clients))
    if enough_remain(clients, lost):
        np.testing.assert_array_equal(summed(clients, None, lost, seed), plain(clients, lost))
    else:
        with pytest.raises(InputError, match="Start again"):
            summed(clients, None, lost, seed)


@settings(max_examples=25)
@given(st.data(), st.integers(9, 14), st.sampled_from([4, 6]))
def test_with_few_neighbors_the_sum_is_never_wrong(data, clients, neighbors):
    lost = data.draw(losses(clients))
    try:
        got = summed(clients, neighbors, lost)
    except InputError as error:
        assert lost != Lost()
        assert "Start again" in str(error)
    else:
        np.testing.assert_array_equal(got, plain(clients, lost))


@pytest.mark.parametrize("step", ["before_sharing", "before_masking", "before_answering"])
@pytest.mark.parametrize("neighbors", [None, 6])
def test_one_client_may_be_lost_before_each_step(step, neighbors):
    lost = Lost(**{step: frozenset({3})})
    np.testing.assert_array_equal(summed(12, neighbors, lost), plain(12, lost))


def test_many_clients_mask_with_some(monkeypatch):
    """Eight stand for a hundred, which take long; each of the twelve has four neighbors."""
    monkeypatch.setattr("pfl.privacy.secure_aggregation.neighbors.COMPLETE", 8)
    assert enough(12) == 4
    np.testing.assert_array_equal(summed(12, None, Lost()), plain(12, Lost()))


def test_numbers_may_have_gaps():
    """Of clients that are left out, say."""
    vectors = random_vectors(9, 4)
    some = [8, 0, 5, 2]
    total, _ = secure_sum(some, lambda u: vectors[u], np.random.default_rng(0).bytes)
    np.testing.assert_array_equal(total, sum(vectors[u] for u in some))


@pytest.mark.parametrize(("clients", "neighbors", "each"), [(3, None, 2), (7, 4, 4)])
def test_what_is_sent_are_keys_letters_numbers_and_shares(clients, neighbors, each):
    """Two keys; for each neighbor a letter of nonce, two shares, tag, and a share; the vector."""
    vectors = random_vectors(clients, 5)
    entropy = np.random.default_rng(0).bytes
    _, size = secure_sum(range(clients), lambda u: vectors[u], entropy, neighbors)
    letter, share = 12 + 2 * 33 + 16, 33
    assert size == clients * (2 * 32 + each * (letter + share) + 8 * 5)
