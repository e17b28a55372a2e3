"""The prior that a sample finds without itself, against counting again."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pfl.fedhip.selection.left_out_prior import everybody_with, left_out_log_ratio, own_log_ratio

counts = st.lists(st.integers(0, 6), min_size=2, max_size=5).map(np.array)
smoothings = st.sampled_from([0.01, 0.1, 3.0])


def counted(mine, everybody, classes, smoothing):
    """Log p_k(c)/π_c, class by class, from lists of labels."""
    pseudo, rows = smoothing * classes, []
    for c in range(classes):
        share = everybody.count(c) / len(everybody) if everybody else 1 / classes
        expected = mine.count(c) / share if share else 0.0
        rows.append(math.log((expected + pseudo) / (len(mine) + pseudo)))
    return rows


def labels(count):
    return [c for c, n in enumerate(count.tolist()) for _ in range(n)]


@given(counts, st.integers(0, 99), smoothings)
def test_it_is_counted_anew_without_the_sample_at_the_client_and_everywhere(own, seed, smoothing):
    total = own + np.random.default_rng(seed).integers(0, 4, len(own))
    found = left_out_log_ratio(own, total, smoothing)
    mine, everybody = labels(own), labels(total)
    for y in set(mine):
        less, fewer = mine.copy(), everybody.copy()
        less.remove(y)
        fewer.remove(y)
        expected = counted(less, fewer, len(own), smoothing)
        np.testing.assert_allclose(found[y], expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        own_log_ratio(own, total, smoothing),
        counted(mine, everybody, len(own), smoothing),
        rtol=1e-12,
        atol=1e-12,
    )


@given(counts, st.integers(0, 99), smoothings)
def test_with_the_very_counts_of_a_refit_it_is_the_same_bytes(own, seed, smoothing):
    total = own + np.random.default_rng(seed).integers(0, 4, len(own))
    found = left_out_log_ratio(own, total, smoothing)
    for y in np.flatnonzero(own):
        less = np.eye(len(own), dtype=int)[y]
        np.testing.assert_array_equal(found[y], own_log_ratio(own - less, total - less, smoothing))


@given(counts, smoothings)
def test_noisy_counts_below_the_clients_own_are_its_own(own, smoothing):
    noisy = own - 3
    np.testing.assert_array_equal(everybody_with(own, noisy), own)
    assert np.isfinite(own_log_ratio(own, noisy, smoothing)).all()
    assert np.isfinite(left_out_log_ratio(own, noisy, smoothing)).all()


@given(counts, smoothings)
def test_a_sample_does_not_vouch_for_its_own_class(own, smoothing):
    """Without itself its class is rarer at the client, beside unchanged others."""
    total = own + 100
    found, whole = (
        left_out_log_ratio(own, total, smoothing), own_log_ratio(own, total, smoothing),
    )  # fmt: skip
    for y in np.flatnonzero(own):
        assert found[y, y] < whole[y] or own.sum() == own[y]
        assert (np.delete(found[y], y) > np.delete(whole, y) - 1e-12).all()
