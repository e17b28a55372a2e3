from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pfl.fedhip.moments
from pfl.errors import InputError
from pfl.fedhip.moments import EXACT_ROWS, Moments, exact_gram, moments, total
from pfl.ridge.linalg import pack
from tests import oracles
from tests.strategies import federations


def of(federation, client):
    return moments(*federation.of(client), federation.classes, federation.step)


def pooled(federation):
    order = np.argsort(federation.labels, kind="stable")
    return moments(
        federation.rows[order], federation.labels[order], federation.classes, federation.step
    )


def zero(federation):
    return Moments.zero(federation.rows.shape[1], federation.classes, federation.step)


@given(federations(max_samples=12, max_width=4))
def test_gram_and_class_sums_are_the_exact_integers(federation):
    m = pooled(federation)
    expected = np.array(oracles.gram(federation.rows))
    np.testing.assert_array_equal(m.gram, expected[np.triu_indices(len(expected))])
    for c in range(federation.classes):
        rows = federation.rows[federation.labels == c].astype(np.int64)
        np.testing.assert_array_equal(m.cross[c], rows.sum(0))
        assert m.count[c] == len(rows)
    assert m.samples == len(federation.rows)


@given(federations())
def test_moments_of_the_clients_sum_to_those_of_the_pool(federation):
    """The law behind Theorem 3: any deal of the same samples sums to the same bytes."""
    parts = [of(federation, k) for k in range(federation.clients)]
    assert sum(parts, zero(federation)) == pooled(federation)
    assert total(parts, zero(federation)) == pooled(federation)


@given(federations())
def test_addition_commutes_and_subtraction_undoes_it(federation):
    a, b = of(federation, 0), pooled(federation)
    assert a + b == b + a
    assert (a + b) - b == a
    assert a + zero(federation) == a


@given(federations())
def test_matrices_are_in_the_units_of_the_features(federation):
    m, f = pooled(federation), federation.features
    np.testing.assert_array_equal(m.gram_matrix(), f.T @ f)
    np.testing.assert_array_equal(
        m.cross_matrix(), f.T @ oracles.one_hot(federation.labels, federation.classes)
    )


@given(st.integers(1, 9), st.integers(1, 9))
def test_blocks_do_not_change_the_integers(block, exact):
    rows = np.random.default_rng(7).integers(-32767, 32768, (40, 5)).astype(np.int16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pfl.fedhip.moments, "BLOCK_ROWS", block)
        patch.setattr(pfl.fedhip.moments, "EXACT_ROWS", exact)
        blocked = exact_gram(rows)
    np.testing.assert_array_equal(blocked, pack(rows.astype(np.int64).T @ rows.astype(np.int64)))


def test_the_longest_float_sum_is_exact_at_the_largest_features():
    """EXACT_ROWS products of the largest magnitude still fit in 53 bits."""
    assert EXACT_ROWS * 32767**2 < 2**53
    assert float(EXACT_ROWS * 32767**2) - 1.0 != float(EXACT_ROWS * 32767**2)


def test_a_total_leaves_its_parts_alone():
    part = moments(np.ones((2, 3), np.int16), np.array([0, 1]), 2, 0.5)
    neutral = Moments.zero(3, 2, 0.5)
    total([part, part], neutral)
    assert neutral == Moments.zero(3, 2, 0.5)
    assert total([part], neutral) == part


def test_moments_over_different_features_do_not_add():
    a = Moments.zero(3, 2, 0.5)
    with pytest.raises(InputError, match="one backbone"):
        total([a], Moments.zero(4, 2, 0.5))
    with pytest.raises(InputError, match="one backbone"):
        a + Moments.zero(4, 2, 0.5)
    with pytest.raises(InputError, match="one backbone"):
        a - Moments.zero(3, 2, 0.25)


@given(federations(), st.sampled_from(["gram", "cross", "count", "step"]))
def test_moments_are_equal_only_in_every_integer_and_the_unit(federation, field):
    m = pooled(federation)
    other = replace(m, **{field: getattr(m, field) + 1})
    assert m == replace(m)
    assert m != other
    assert m != "moments"


def test_moments_have_no_hash():
    with pytest.raises(TypeError, match="unhashable"):
        hash(Moments.zero(3, 2, 0.5))


def test_samples_that_are_not_there_cannot_be_taken_out():
    one = moments(np.ones((2, 3), np.int16), np.array([0, 1]), 2, 0.5)
    two = moments(np.ones((2, 3), np.int16), np.array([1, 1]), 2, 0.5)
    with pytest.raises(InputError, match="2 samples of class 1 cannot be taken out of 1"):
        one - two
    assert (one + two) - two == one
