"""The anchored head between least squares on the own samples and the global head."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.errors import InputError
from pfl.fedhip.families.anchored_head import anchored_head
from tests import oracles

seeds = st.integers(0, 2**32 - 1)


def drawn(seed, samples, width, classes=3):
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(width, classes)),
        rng.normal(size=(samples, width)),
        rng.integers(0, classes, samples),
    )


@given(seeds, st.integers(0, 12), st.integers(1, 8), st.sampled_from([1e-2, 1.0, 1e3]))
def test_it_is_ridge_regression_towards_the_anchor(seed, samples, width, rho):
    anchor, features, labels = drawn(seed, samples, width)
    expected = oracles.anchored(anchor, features, labels, rho)
    head = anchored_head(anchor, features, labels, rho)
    np.testing.assert_allclose(head, expected, rtol=0, atol=1e-9 * (1 + np.abs(expected).max()))


@given(seeds, st.integers(1, 12), st.integers(1, 8))
def test_a_large_rho_gives_the_anchor(seed, samples, width):
    anchor, features, labels = drawn(seed, samples, width)
    head = anchored_head(anchor, features, labels, 1e14)
    np.testing.assert_allclose(head, anchor, atol=1e-9)


@given(seeds, st.integers(9, 14), st.integers(1, 5))
def test_a_small_rho_forgets_the_anchor(seed, samples, width):
    anchor, features, labels = drawn(seed, samples, width)
    own = np.linalg.lstsq(features, oracles.one_hot(labels, 3), rcond=None)[0]
    np.testing.assert_allclose(anchored_head(anchor, features, labels, 1e-10), own, atol=1e-5)


def test_no_samples_give_the_anchor_itself():
    anchor, features, labels = drawn(0, 0, 4)
    np.testing.assert_array_equal(anchored_head(anchor, features, labels, 1.0), anchor)


def test_a_ridge_lost_in_rounding_is_called_rho():
    anchor, features, labels = drawn(0, 2, 30)
    with pytest.raises(InputError, match="set rho to"):
        anchored_head(anchor, np.tile(1e6 * features, (20, 1)), np.tile(labels, 20), 1e-12)
