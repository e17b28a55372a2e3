import itertools
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.errors import InputError
from pfl.privacy.secure_aggregation.shamir import PRIME, evaluate, interpolate, recover, split
from tests.oracles import is_probably_prime

secrets = st.binary(min_size=32, max_size=32)


@st.composite
def sharings(draw):
    """A secret, t, n points and a seed."""
    secret, n = draw(secrets), draw(st.integers(1, 8))
    threshold = draw(st.integers(1, n))
    points = draw(st.lists(st.integers(1, 10**6), min_size=n, max_size=n, unique=True))
    return secret, threshold, points, draw(st.integers(0, 2**32 - 1))


def shared(secret, threshold, points, seed):
    """A secret, t and its shares."""
    return secret, threshold, split(secret, threshold, points, np.random.default_rng(seed).bytes)


def subset(shares, size, rng):
    return {x: shares[x] for x in rng.sample(sorted(shares), size)}


@given(sharings(), st.randoms(use_true_random=False))
def test_any_t_shares_or_more_give_the_secret(sharing, rng):
    secret, threshold, shares = shared(*sharing)
    size = rng.randint(threshold, len(shares))
    assert recover(subset(shares, size, rng), threshold) == secret


@given(sharings(), secrets, st.randoms(use_true_random=False))
def test_fewer_shares_fit_every_secret(sharing, other, rng):
    """Whatever the secret, one more share exists with which they give it."""
    _, threshold, shares = shared(*sharing)
    few = subset(shares, threshold - 1, rng)
    values = {x: int.from_bytes(share) for x, share in few.items()} | {0: int.from_bytes(other)}
    place = 10**6 + 1
    one_more = interpolate({x - place: value for x, value in values.items()})
    assert recover(few | {place: one_more.to_bytes(33)}, threshold) == other


@pytest.mark.parametrize("secret", range(5))
def test_in_a_small_field_fewer_shares_are_equally_likely_for_every_secret(secret):
    """All 5² polynomials of t = 3: every pair of values at two points occurs once."""
    for points in itertools.permutations(range(1, 5), 2):
        seen = Counter(
            tuple(evaluate([secret, *rest], x, prime=5) for x in points)
            for rest in itertools.product(range(5), repeat=2)
        )
        assert seen == Counter(itertools.product(range(5), repeat=2))


@given(sharings(), st.randoms(use_true_random=False))
def test_too_few_shares_are_refused(sharing, rng):
    _, threshold, shares = shared(*sharing)
    with pytest.raises(InputError, match="too few clients remain"):
        recover(subset(shares, threshold - 1, rng), threshold)


def test_shares_of_no_secret_are_refused():
    with pytest.raises(InputError, match="not of one secret"):
        recover({1: (2**256).to_bytes(33)}, 1)


def test_the_field_is_the_least_one_that_holds_every_secret():
    rng = random.Random(0)
    above = range(2**256, PRIME + 1)
    assert [n for n in above if is_probably_prime(n, rng)] == [PRIME]
