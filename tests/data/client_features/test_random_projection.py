import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pfl.data.client_features.random_projection
from pfl.data.client_features.random_projection import lift, projection
from pfl.fedhip.moments import moments
from pfl.ridge.linalg import factor, syrk
from tests import oracles

MAPS = {
    "project": lambda m, size, seed: projection(m, 2.0**-8, size, seed),
    "lift": lift,
}
kinds = pytest.mark.parametrize("kind", MAPS)


def some_rows(n, m, limit, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(-limit, limit + 1, (n, m)).astype(np.int16)


@kinds
@given(
    n=st.integers(0, 12),
    m=st.sampled_from([1, 3, 4, 5, 16, 17, 600]),
    size=st.integers(1, 40),
    limit=st.sampled_from([1, 300, 32767]),
    seed=st.integers(0, 2**63 - 1),
)
def test_maps_are_what_whole_numbers_give(kind, n, m, size, limit, seed):
    rows = some_rows(n, m, limit, seed % 1000)
    made = MAPS[kind](m, size, seed)
    mapped, saturated = made(rows)
    expected, beyond = oracles.sign_map(rows, made.signs, made.shift, made.rectified)
    np.testing.assert_array_equal(mapped, np.array(expected, np.int16).reshape(n, size))
    assert saturated == beyond


@kinds
@given(cut=st.integers(0, 50), block=st.integers(1, 60))
def test_blocks_change_no_byte(kind, cut, block):
    rows, made = some_rows(50, 700, 32767), MAPS[kind](700, 33, 5)
    whole, saturated = made(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pfl.data.client_features.random_projection, "BLOCK_ROWS", block)
        (first, one), (second, two) = made(rows[:cut]), made(rows[cut:])
    assert np.concatenate([first, second]).tobytes() == whole.tobytes()
    assert one + two == saturated


def test_the_largest_sums_of_a_part_are_exact():
    """All signs and values agree: the float32 sum is the largest there can be."""
    made = projection(pfl.data.client_features.random_projection.EXACT_COLUMNS, 1.0, 3, 0)
    rows = (32767 * made.signs.T).astype(np.int16)
    product = np.diag(made._product(rows))
    assert (
        product
        == np.rint(32767 * pfl.data.client_features.random_projection.EXACT_COLUMNS / 2**made.shift)
    ).all()


@kinds
def test_the_seed_alone_makes_the_signs(kind):
    """The same on every machine and with every version: some of them are written down here."""
    told = {"project": [-1, 1, 1, -1, 1, 1, 1, 1], "lift": [-1, 1, 1, -1, 1, 1, -1, 1]}
    assert MAPS[kind](8, 4, 7).signs[:2].ravel().tolist() == told[kind]
    assert (MAPS[kind](8, 4, 7).signs != MAPS[kind](8, 4, 8).signs).any()
    signs = MAPS[kind](100, 100, 0).signs
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert abs(signs.mean()) < 0.05


def test_a_projection_keeps_lengths_and_angles_on_average():
    rows, size, step = some_rows(40, 300, 3000), 4000, 2.0**-8
    made = projection(300, step, size, 0)
    mapped, _ = made(rows)
    before, after = (syrk((q * s).T) for q, s in ((rows, step), (mapped, made.step)))
    ratio = np.trace(after) / np.trace(before)
    assert 0.5 <= ratio <= 2
    assert np.abs(after / ratio - before).max() < 0.1 * np.diag(before).max()


@given(m=st.integers(1, 20), size=st.integers(1, 300), seed=st.integers(0, 9))
def test_lifted_samples_are_no_longer_than_one(m, size, seed):
    made = lift(m, size, seed)
    mapped, _ = made(some_rows(5, m, 32767, seed))
    assert (mapped >= 0).all()
    assert (np.sum((mapped * made.step) ** 2, axis=1) <= 1).all()
    assert size * (32767 * made.step) ** 2 > 0.2  # and the unit is not needlessly small


@pytest.mark.slow
@pytest.mark.parametrize("samples", [500, 6000])
def test_the_solve_at_4096_features_is_stable_at_a_tiny_ridge(samples):
    """β = 1e-6, with fewer and with more samples than features; backward error of (A, B)."""
    rng = np.random.default_rng(0)
    labels = np.sort(rng.integers(0, 5, samples))
    means = rng.normal(0, 2000, (5, 64))
    rows = np.clip(means[labels] + rng.normal(0, 3000, (samples, 64)), 0, 32767).astype(np.int16)
    made = lift(64, 4096, 0)
    summed = moments(made(rows)[0], labels, 5, made.step)
    gram, cross = summed.gram_matrix(), summed.cross_matrix()
    head = factor(gram, 1e-6).solve(cross)
    residual = gram @ head + 1e-6 * head - cross
    size = np.linalg.norm(gram) * np.linalg.norm(head) + np.linalg.norm(cross)
    assert np.linalg.norm(residual) < 1e-13 * size
