"""Choosing the global beta from sums alone, against textbook formulas on the samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.errors import InputError
from pfl.fedhip.closed_form import aggregate
from pfl.fedhip.families.local_head import local_path
from pfl.fedhip.moments import Moments, moments
from pfl.ridge.gcv import choose_beta, global_path
from pfl.ridge.grid import decades
from tests import oracles
from tests.fedhip.problems import Pool
from tests.fedhip.test_closed_form import total
from tests.strategies import federations

betas = st.sampled_from([1e-2, 1.0, 1e3])


@given(federations(), betas)
def test_every_head_of_the_path_is_the_global_head(federation, beta):
    path = global_path(*total(federation).ridge_sums())
    beta = beta * (1 + path.spectrum.values.max())
    head = aggregate(total(federation), beta).head
    np.testing.assert_allclose(
        path.spectrum.vectors @ path.head(beta), head, atol=1e-9 * (1 + np.abs(head).max())
    )


@given(federations(), betas)
def test_gcv_from_sums_is_that_of_the_samples(federation, share):
    """Residuals and trace of the hat matrix, formed sample by sample."""
    path = global_path(*total(federation).ridge_sums())
    beta = share * (1.0 + path.spectrum.values.max())
    features, n = federation.features, len(federation.labels)
    targets = oracles.one_hot(federation.labels, federation.classes)
    hat = features @ np.linalg.solve(
        features.T @ features + beta * np.eye(features.shape[1]), features.T
    )
    rest = np.sum((targets - hat @ targets) ** 2)
    expected = n * rest / (n - np.trace(hat)) ** 2
    np.testing.assert_allclose(path.gcv(beta), expected, rtol=1e-8)


def noisy(seed, n=400, m=30, noise=3.0):
    """Samples of three classes whose means are hidden in noise, some directions weak."""
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.integers(0, 3, n))
    spread = np.geomspace(1, 0.03, m)
    rows = (rng.normal(size=(3, m))[labels] + noise * rng.normal(size=(n, m))) * spread
    return np.rint(rows * 256).astype(np.int16), labels


@pytest.mark.parametrize("seed", range(5))
def test_gcv_chooses_nearly_as_well_as_exact_leave_one_out(seed):
    """The leave-one-out error at the beta of GCV is within 1 % of the least one."""
    rows, labels = noisy(seed)
    features = rows / 256
    path, targets = local_path(Pool(features, labels, 400, 3).problem()), np.eye(3)[labels]

    def left_out(beta):
        return np.sum((targets - path(np.array([beta]))[:, 0]) ** 2)

    shared = global_path(*moments(rows, labels, 3, 2.0**-8).ridge_sums())
    largest = shared.spectrum.values.max()
    best = min(left_out(beta) for beta in decades(1e-8 * largest, largest, 10))
    assert left_out(choose_beta(shared)) <= 1.01 * best
    assert left_out(largest) > 1.05 * best


@given(federations(), st.integers(0, 2**32 - 1))
def test_the_choice_does_not_depend_on_who_holds_what(federation, seed):
    owner = np.random.default_rng(seed).integers(0, federation.clients, len(federation.owner))
    dealt = type(federation)(
        federation.rows, federation.labels, owner, federation.clients, federation.classes
    )
    if federation.rows.any():
        one, two = (
            choose_beta(global_path(*total(each).ridge_sums())) for each in (federation, dealt)
        )
        assert one == two


def test_noiseless_data_do_not_end_in_rounding():
    """Fewer samples than features are fitted exactly; the choice must still be a good ridge."""
    rows, labels = noisy(0, n=12)
    beta = choose_beta(global_path(*moments(rows, labels, 3, 2.0**-8).ridge_sums()))
    assert np.isfinite(aggregate(moments(rows, labels, 3, 2.0**-8), beta).head).all()


@pytest.mark.parametrize("seed", range(5))
def test_repeated_samples_do_not_lead_into_interpolation(seed):
    """Where all samples are fitted and some are repeated, GCV vanishes with beta, falsely."""
    rows, labels = noisy(seed, n=600, m=160)
    order = np.random.default_rng(seed).permutation(600)
    mine, others = order[:120], order[120:]
    mine = np.sort(np.concatenate([mine, mine[:2]]))
    shared = global_path(*moments(rows[mine], labels[mine], 3, 2.0**-8).ridge_sums())
    largest = shared.spectrum.values.max()
    least, chosen = decades(1e-8 * largest, largest, 10)[0], choose_beta(shared)
    assert shared.gcv(least) < shared.gcv(chosen)
    features = rows[others] / 256 @ shared.spectrum.vectors
    targets = oracles.one_hot(labels[others], 3)
    errors = [np.mean((targets - features @ shared.head(beta)) ** 2) for beta in (least, chosen)]
    assert errors[1] < 0.5 * errors[0]


def test_nothing_to_choose_from_is_a_sentence():
    with pytest.raises(InputError, match=r"set aggregate\.beta to a number"):
        choose_beta(global_path(*Moments.zero(4, 2, 1.0).ridge_sums()))


@given(st.floats(1e-9, 1e9), st.floats(1, 1e6), st.integers(1, 10))
def test_grids_hold_round_values_and_cover_their_range(lowest, factor, steps):
    grid = np.array(decades(lowest, lowest * factor, steps))
    assert grid[0] <= lowest * (1 + 1e-12)
    assert grid[-1] >= lowest * factor * (1 - 1e-12)
    exponents = steps * np.log10(grid)
    np.testing.assert_allclose(exponents, np.rint(exponents), atol=1e-9)
    np.testing.assert_allclose(np.diff(exponents), 1.0, atol=1e-9)
