from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.privacy.leakage.modular import (
    EXACT_TERMS,
    PRIME,
    eliminate,
    leading_inverse,
    random_residues,
    reduced,
    residues,
    times,
)
from tests.oracles import rational_rank

seeds = st.integers(0, 2**32 - 1)


def same(left, right):
    """Equal modulo p; the right side in Python's integers."""
    return all((int(a) - int(b)) % PRIME == 0 for a, b in zip(left.flat, right.flat, strict=True))


def test_the_prime_is_prime_and_small_enough_for_exact_sums():
    assert all(PRIME % divisor for divisor in range(2, int(PRIME**0.5) + 1))
    assert ((PRIME + 1) // 2) ** 2 * EXACT_TERMS <= 2**53


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1))
def test_residues_are_congruent_small_and_zero_for_multiples_alone(values):
    found = residues(np.array(values, np.int64))
    assert same(found, np.array(values, object))
    assert np.abs(found).max() <= PRIME / 2 + 1
    assert [value == 0 for value in found] == [value % PRIME == 0 for value in values]


@given(st.integers(-(2**30), 2**30))
def test_multiples_of_the_prime_are_zero(factor):
    assert reduced(np.array([float(factor * PRIME)]))[0] == 0
    assert reduced(np.array([float(factor * PRIME + 1)]))[0] == 1


@pytest.mark.parametrize("terms", [1, EXACT_TERMS, 2 * EXACT_TERMS + 3])
def test_products_are_exact_however_many_terms(terms):
    rng = np.random.default_rng(terms)
    left = np.full((2, terms), PRIME // 2) - rng.integers(0, 3, (2, terms))
    right = np.full((terms, 2), PRIME // 2) - rng.integers(0, 3, (terms, 2))
    expected = left.astype(object) @ right.astype(object)
    assert same(times(residues(left), residues(right)), expected)


@given(st.integers(1, 12), seeds)
def test_the_inverse_inverts(size, seed):
    matrix = random_residues((size, size), np.random.default_rng(seed))
    inverse = leading_inverse(matrix)
    size = len(inverse)
    assert np.array_equal(times(matrix[:size, :size], inverse), np.eye(size))


def test_the_inverse_stops_at_a_zero_pivot():
    matrix = np.array([[2.0, 4.0, 1.0], [1.0, 2.0, 0.0], [0.0, 1.0, 5.0]])
    assert len(leading_inverse(matrix)) == 1
    assert len(leading_inverse(np.zeros((2, 2)))) == 0


@given(st.integers(1, 9), st.integers(0, 9), seeds)
def test_elimination_solves_and_finds_the_rank(size, samples, seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-50, 50, (samples, size))
    gram, basis = residues(rows.T @ rows), random_residues((size, size), rng)
    square = times(basis.T, times(gram, basis))
    system = np.hstack([square, np.eye(size)])
    rank = eliminate(system, size)
    assert rank == rational_rank(rows)
    assert not system[rank:, rank:size].any()
    inverse = system[:rank, size : size + rank]
    assert np.array_equal(times(square[:rank, :rank], inverse), np.eye(rank))


def test_blocks_of_pivots_are_joined():
    rng = np.random.default_rng(0)
    rows = rng.integers(-99, 99, (150, 200))
    basis = random_residues((200, 200), rng)
    square = times(basis.T, times(residues(rows.T @ rows), basis))
    system = np.hstack([square, np.eye(200)])
    assert eliminate(system, 200) == 150
    assert not system[150:, 150:200].any()
    assert np.array_equal(times(square[:150, :150], system[:150, 200:350]), np.eye(150))


def test_the_oracle_of_the_rank():
    assert rational_rank(np.array([[1, 2], [2, 4], [0, 0]])) == 1
    assert rational_rank(np.array([[Fraction(1, 3), 1], [1, 4]])) == 2
