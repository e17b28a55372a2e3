"""Means of classes and the scatter within them, from sums, against loops over samples."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.fedhip.class_scatter import class_scatter
from pfl.fedhip.moments import Moments
from tests import oracles
from tests.fedhip.problems import pools
from tests.fedhip.test_closed_form import total
from tests.strategies import federations


def scatter_of(features, labels, classes):
    targets = oracles.one_hot(labels, classes)
    return class_scatter(features.T @ features, features.T @ targets, targets.sum(axis=0))


@given(pools())
def test_it_is_that_of_the_samples(pool):
    found = scatter_of(*pool.everybody, 4)
    means, scatter = oracles.discriminant(pool.everybody, pool.mine, 4, 0.0, np.inf)
    atol = 1e-12 * (1 + np.sum(pool.features**2))
    np.testing.assert_allclose(found.within, scatter, atol=atol)
    np.testing.assert_allclose(found.center, pool.features.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(found.center + found.deviations, means, atol=1e-12)
    assert found.samples == len(pool.labels)
    assert found.present.tolist() == np.isin(range(4), pool.labels).tolist()
    np.testing.assert_array_equal(found.within, found.within.T)


@given(pools(), st.sampled_from([1.0, 1e3]))
def test_an_offset_of_all_samples_moves_the_mean_alone(pool, offset):
    one, other = (scatter_of(pool.features + by, pool.labels, 4) for by in (0.0, offset))
    atol = 1e-13 * (1 + np.sum((np.abs(pool.features) + offset) ** 2))
    np.testing.assert_allclose(other.within, one.within, atol=atol)
    np.testing.assert_allclose(other.deviations, one.deviations, atol=1e-9)
    np.testing.assert_allclose(other.center, one.center + offset, rtol=1e-12)


@given(federations())
def test_of_fixed_point_sums_it_never_seems_to_be_of_noise(federation):
    """Rounding leaves no eigenvalue below 0 that counts."""
    sums = total(federation)
    found = class_scatter(sums.gram_matrix(), sums.cross_matrix(), sums.count.astype(float))
    least = np.linalg.eigvalsh(found.within)[0]
    assert least > -1e-9 * max(np.trace(found.within), found.variance)
    assert found.variance > 0


def test_the_unit_of_the_ridge_is_the_mean_variance_or_what_stands_in_for_it():
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(30, 4)), np.arange(30) % 3
    found = scatter_of(features, labels, 3)
    assert found.variance == pytest.approx(np.trace(found.within) / 4)
    means = found.center + found.deviations
    alike = scatter_of(means[labels], labels, 3)
    assert np.abs(alike.within).max() < 1e-12
    nothing = replace(alike, within=np.zeros((4, 4)))
    assert nothing.variance == pytest.approx(np.sum(10 * nothing.deviations**2) / 4)
    equal = replace(nothing, deviations=np.zeros((3, 4)))
    assert equal.variance == 1.0


@given(st.integers(1, 5), st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_noise_in_counts_and_sums_leaves_numbers(m, d, seed):
    """A class whose private count is not above 0 is taken for one that nobody has."""
    rng = np.random.default_rng(seed)
    half = 3 * rng.normal(size=(m, m))
    count = rng.normal(1, 3, d)
    found = class_scatter(half + half.T, rng.normal(size=(m, d)), count)
    assert (found.count >= 0).all()
    assert found.present.tolist() == (count > 0).tolist()
    assert not found.deviations[count <= 0].any()
    for value in (found.within, found.center, found.deviations, found.variance):
        assert np.isfinite(value).all()
    assert found.variance > 0


def test_of_nobody_there_is_nothing():
    nobody = Moments.zero(3, 2, 1.0)
    found = class_scatter(nobody.gram_matrix(), nobody.cross_matrix(), np.zeros(2))
    assert not found.within.any()
    assert not found.center.any()
    assert found.variance == 1.0
