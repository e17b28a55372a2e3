"""Every left-out score equals that of a head refitted without the sample."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pfl.fedhip.families import client_problem
from pfl.fedhip.families.anchored_head import anchored_path
from pfl.fedhip.families.client_problem import GlobalFit
from pfl.fedhip.families.discriminant import discriminant_path
from pfl.fedhip.families.equation_14 import path_of_equation_14
from pfl.fedhip.families.global_head import global_path, global_residuals
from pfl.fedhip.families.local_head import local_path
from pfl.fedhip.families.table import FAMILIES, Candidate, Family
from pfl.ridge.smoother import smoother
from tests import oracles
from tests.fedhip.problems import Pool, pool_of, pools, problem_of

ridges = st.sampled_from([0.05, 1.0, 30.0])
weights = st.sampled_from([0.0, 0.3, 10.0, 1e3])
pulls = st.sampled_from([math.inf, 100.0, 2.0, 1e-3])
shrinkages = st.sampled_from([0.03, 1.0, 30.0])
LINES = {
    Family.GLOBAL: Candidate(Family.GLOBAL),
    Family.FEDHIP: Candidate(Family.FEDHIP, alpha=3.0),
    Family.ANCHORED: Candidate(Family.ANCHORED, rho=2.0),
    Family.LOCAL: Candidate(Family.LOCAL, beta=2.0),
    Family.LDA: Candidate(Family.LDA, shrinkage=0.5, pull=5.0),
}


def refits(pool, head):
    """Scores of each of the client's samples by ``head(pool)`` made without it."""
    rows = [pool.features[i] @ head(pool.without(i)) for i in range(pool.own)]
    return np.array(rows)


def one(path, value):
    return path(np.array([value]))[:, 0]


def close(actual, expected, digits=1e-8):
    np.testing.assert_allclose(
        actual, expected, rtol=0, atol=digits * (1 + np.nanmax(np.abs(expected), initial=0.0))
    )


def centered(scores):
    return scores - scores.mean(axis=1, keepdims=True)


@settings(max_examples=60)
@given(pools(), ridges)
def test_global(pool, beta):
    expected = refits(pool, lambda less: oracles.ridge(*less.everybody, 4, beta))
    close(one(global_path(pool.problem(beta)), 0.0), expected)


@settings(max_examples=60)
@given(pools(), ridges)
def test_local(pool, beta):
    expected = refits(pool, lambda less: oracles.ridge(*less.mine, 4, beta))
    close(one(local_path(pool.problem()), beta), expected)


@settings(max_examples=60)
@given(pools(), ridges, ridges)
def test_anchored_where_the_sample_leaves_the_global_head_too(pool, beta, rho):
    def head(less):
        return oracles.anchored(oracles.ridge(*less.everybody, 4, beta), *less.mine, rho)

    close(one(anchored_path(pool.problem(beta)), rho), refits(pool, head))


@settings(max_examples=60)
@given(pools(), ridges, weights)
def test_fedhip_where_the_sample_leaves_both_terms(pool, beta, alpha):
    def head(less):
        return oracles.weighted_ridge([(*less.everybody, 1.0), (*less.mine, alpha)], 4, beta)

    close(one(path_of_equation_14(pool.problem(beta)), alpha), refits(pool, head), 1e-7)


def discriminant_refits(pool, ridge, pull):
    """Of Gaussians: distances to means made without the sample, under a scatter without it."""
    rows = []
    for i in range(pool.own):
        less = pool.without(i)
        fitted = oracles.discriminant(less.everybody, less.mine, pool.classes, ridge, pull)
        rows.append(oracles.log_densities(pool.features[i : i + 1], *fitted)[0])
    return np.array(rows)


@settings(max_examples=60)
@given(pools(), shrinkages, pulls)
def test_discriminant_where_the_sample_leaves_scatter_and_means(pool, shrinkage, pull):
    """With the ridge as it was; up to what all classes share."""
    assume(len(pool.labels) > 1)
    problem = pool.problem()
    found = one(discriminant_path(problem, pull), shrinkage)
    ridge = shrinkage * problem.server.scatter.variance
    expected = discriminant_refits(pool, ridge, pull)
    known = np.isfinite(found).all(axis=1)
    close(centered(found[known]), centered(expected[known]), 1e-7)
    if shrinkage >= 1.0:
        assert known.all()


@pytest.mark.parametrize("own", [5, 40])
@pytest.mark.parametrize("pull", [math.inf, 3.0])
def test_the_only_sample_of_a_class_leaves_the_mean_of_all(own, pull):
    """At the client and everywhere; beside it a class that nobody has; by either route."""
    pool = pool_of(np.random.default_rng(own), own, 30, 12, 5, present=3, offset=100.0)
    labels = pool.labels.copy()
    labels[own - 1] = 3
    pool = Pool(pool.features, labels, own, 5)
    problem = pool.problem()
    ridge = 0.1 * problem.server.scatter.variance
    found = one(discriminant_path(problem, pull), 0.1)
    close(centered(found), centered(discriminant_refits(pool, ridge, pull)), 1e-7)
    assert found[-1, 3] == pytest.approx(found[-1, 4])
    np.testing.assert_array_less(found[-1, 3] + 0.1, found[:-1].max(axis=1).max())


@settings(max_examples=30)
@given(pools(), ridges)
def test_the_paths_end_at_the_global_head(pool, beta):
    problem = pool.problem(beta)
    end = one(global_path(problem), 0.0)
    close(one(path_of_equation_14(problem), 0.0), end)
    far = one(anchored_path(problem), 1e15)
    np.testing.assert_allclose(far, end, atol=1e-6 * (1 + np.abs(end).max()))


@settings(max_examples=25)
@given(pools(least=2), ridges)
def test_an_endless_pull_is_the_limit_of_a_large_one(pool, shrinkage):
    problem = pool.problem()
    limit, near = (one(discriminant_path(problem, pull), shrinkage) for pull in (math.inf, 1e9))
    np.testing.assert_allclose(near, limit, atol=1e-6 * (1 + np.abs(limit).max()))


@pytest.mark.parametrize("samples", [3, 12, 12 + 5])
def test_the_smaller_gram_matrix_is_decomposed(samples):
    fit = smoother(np.random.default_rng(0).normal(size=(samples, 12)))
    assert fit.whole == (samples <= 12)
    assert fit.basis.shape == (samples, min(samples, 12))


@settings(max_examples=25)
@given(pools(least=2), ridges)
def test_many_values_at_once_are_as_one_after_another(pool, beta):
    problem, values = pool.problem(beta), np.array([0.1, 2.0, 50.0])
    for line in LINES.values():
        path = line.family.definition.leave_one_out(problem, line)
        alone = [path(values[i : i + 1]) for i in range(len(values))]
        close(path(values), np.concatenate(alone, axis=1))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("width", [3, 17])
def test_of_many_samples_some_are_judged_as_among_all(family, width, monkeypatch):
    """Heads are fitted to all; the judged are evenly spread and keep their scores."""
    pool = pool_of(np.random.default_rng(width), 60, 20, width, 4)
    line, values = LINES[family], np.array([0.3, 4.0])
    whole = family.definition.leave_one_out(pool.problem(), line)(values)
    monkeypatch.setattr(client_problem, "JUDGED", 10)
    problem = pool.problem()
    part = family.definition.leave_one_out(problem, line)(values)
    assert problem.judged.tolist() == list(range(0, 60, 6))
    np.testing.assert_array_equal(problem.judged_labels, pool.labels[problem.judged])
    close(part, whole[problem.judged], 1e-9)


@pytest.mark.parametrize(("samples", "judged"), [(0, 0), (1, 1), (9, 9), (12, 12), (30, 10)])
def test_no_more_are_left_out_than_there_are_nor_where_features_are_more(
    samples, judged, monkeypatch
):
    monkeypatch.setattr(client_problem, "JUDGED", 10)
    pool = pool_of(np.random.default_rng(0), samples, 20, 12, 4)
    found = pool.problem().judged
    assert len(np.unique(found)) == len(found) == judged
    assert (np.diff(found) > 0).all()


def test_leverages_that_only_noise_can_make_cannot_be_judged():
    """From private sums: such residuals are NaN, which makes an objective infinite."""
    whitened = np.diag(np.sqrt([0.5, 1.0, 1.5]))
    fit = GlobalFit(np.ones((3, 2)), whitened, np.ones(3), 1.0)
    found = global_residuals(fit)
    np.testing.assert_allclose(found[0], [2.0, 2.0])
    assert np.isnan(found[1:]).all()


@pytest.mark.parametrize("family", [Family.GLOBAL, Family.FEDHIP, Family.ANCHORED, Family.LDA])
def test_a_client_whose_samples_the_noise_hides_cannot_be_judged_by_the_sums(family):
    """Its own sums exceed everybody's, as they are after noise; the others' scores stay."""
    pool = pool_of(np.random.default_rng(0), 6, 30, 8, 4)
    server = pool.server()
    mine = pool.features[:6] * np.array([[1, 1, 1, 1, 1, 40]]).T
    problem = problem_of(server, mine, pool.labels[:6])
    line = LINES[family]
    found = one(family.definition.leave_one_out(problem, line), line.along)
    assert np.isnan(found[5]).all()
    assert np.isfinite(found[:5]).all()
