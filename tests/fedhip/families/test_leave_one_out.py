"""Every leave-one-out residual equals that of a head refitted without the sample."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.fedhip.closed_form import one_hot
from pfl.fedhip.families.anchored_head import anchored_path
from pfl.fedhip.families.client_problem import GlobalFit
from pfl.fedhip.families.equation_14 import path_of_equation_14
from pfl.fedhip.families.global_head import global_residuals
from pfl.fedhip.families.local_head import local_path
from pfl.ridge.linalg import factor, syrk
from pfl.ridge.smoother import smoother
from tests import oracles

ridges = st.sampled_from([0.05, 1.0, 30.0])
weights = st.sampled_from([0.0, 0.3, 10.0, 1e3])


@st.composite
def clients(draw):
    """A client's samples and everybody else's, fewer or more than there are features."""
    m = draw(st.integers(1, 8))
    n = draw(st.integers(1, 14))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    others = draw(st.integers(0, 12))
    features = rng.normal(size=(n + others, m))
    if draw(st.booleans()):
        features[n // 2 : n] = features[0]  # equal samples: K is singular
    return features, np.sort(rng.integers(0, 3, n)), rng.integers(0, 3, others)


def without(features, labels, i):
    """The pooled samples without sample ``i``, and the client's own."""
    keep = np.arange(len(features)) != i
    return (features[keep], labels[keep])


def refits(case, head):
    """Residual of each of the client's samples under ``head(everybody, own)`` made without it."""
    features, mine, others = case
    labels, n = np.concatenate([mine, others]), len(mine)
    rows = []
    for i in range(n):
        everybody = without(features, labels, i)
        own = without(features[:n], mine, i)
        rows.append(np.eye(3)[mine[i]] - features[i] @ head(everybody, own))
    return np.array(rows)


def problem(case, beta):
    """F_k, Y_k, and what the global head says of the samples, E and F_k L⁻ᵀ."""
    features, mine, others = case
    own, targets = features[: len(mine)], one_hot(mine, 3)
    head = oracles.ridge(features, np.concatenate([mine, others]), 3, beta)
    ridged = factor(syrk(features), beta)
    whitened = ridged.half_solve(own.T).T
    strain = np.sum(ridged.solve(own.T) ** 2, axis=0)
    return own, targets, GlobalFit(targets - own @ head, whitened, strain, 1.0)


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-9 * (1 + np.abs(expected).max()))


@given(clients(), ridges)
def test_global(case, beta):
    _, _, shared = problem(case, beta)
    expected = refits(case, lambda everybody, _: oracles.ridge(*everybody, 3, beta))
    close(global_residuals(shared), expected)


@given(clients(), ridges)
def test_local(case, beta):
    own, targets, _ = problem(case, beta)
    expected = refits(case, lambda _, mine: oracles.ridge(*mine, 3, beta))
    close(local_path(smoother(own), targets)(np.array([beta]))[:, 0], expected)


@given(clients(), ridges, ridges)
def test_anchored_where_the_sample_leaves_the_global_head_too(case, beta, rho):
    own, _, shared = problem(case, beta)

    def head(everybody, mine):
        anchor = oracles.ridge(*everybody, 3, beta)
        return oracles.anchored(anchor, *mine, rho)

    path = anchored_path(smoother(own), shared)
    close(path(np.array([rho]))[:, 0], refits(case, head))


@given(clients(), ridges, weights)
def test_fedhip_where_the_sample_leaves_both_terms(case, beta, alpha):
    _, _, shared = problem(case, beta)

    def head(everybody, mine):
        return oracles.weighted_ridge([(*everybody, 1.0), (*mine, alpha)], 3, beta)

    path = path_of_equation_14(shared)
    close(path(np.array([alpha]))[:, 0], refits(case, head))


@given(clients(), ridges)
def test_the_paths_end_at_the_global_head(case, beta):
    own, _, shared = problem(case, beta)
    end = global_residuals(shared)
    close(path_of_equation_14(shared)(np.zeros(1))[:, 0], end)
    far = anchored_path(smoother(own), shared)(np.array([1e15]))[:, 0]
    np.testing.assert_allclose(far, end, atol=1e-6 * (1 + np.abs(end).max()))


@pytest.mark.parametrize("samples", [3, 12, 12 + 5])
def test_the_smaller_gram_matrix_is_decomposed(samples):
    fit = smoother(np.random.default_rng(0).normal(size=(samples, 12)))
    assert fit.whole == (samples <= 12)
    assert fit.basis.shape == (samples, min(samples, 12))


@given(clients(), ridges)
def test_many_values_at_once_are_as_one_after_another(case, beta):
    own, targets, shared = problem(case, beta)
    fit, values = smoother(own), np.array([0.1, 2.0, 50.0])
    for path in (
        local_path(fit, targets),
        anchored_path(fit, shared),
        path_of_equation_14(shared),
    ):
        alone = [path(values[i : i + 1]) for i in range(len(values))]
        close(path(values), np.concatenate(alone, axis=1))


def test_leverages_that_only_noise_can_make_cannot_be_judged():
    """From private sums: such residuals are NaN, which makes a loss infinite."""
    whitened = np.diag(np.sqrt([0.5, 1.0, 1.5]))
    found = global_residuals(GlobalFit(np.ones((3, 2)), whitened, np.ones(3), 1.0))
    np.testing.assert_allclose(found[0], [2.0, 2.0])
    assert np.isnan(found[1:]).all()
    path = path_of_equation_14(GlobalFit(np.ones((2, 2)), np.diag([0.5, 1.5]), np.ones(2), 1.0))
    assert np.isfinite(path(np.array([0.3]))).all(axis=(1, 2)).tolist() == [True, False]
