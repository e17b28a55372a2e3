"""The discriminant head is the Gaussian one of the textbook, and what it must not depend on."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pfl.errors import InputError
from pfl.fedhip.families.discriminant import discriminant
from pfl.fedhip.families.table import Candidate, Family
from pfl.fedhip.moments import moments
from tests import oracles
from tests.fedhip.problems import Pool, pool_of, pools
from tests.fedhip.test_closed_form import own
from tests.strategies import federations

pulls = st.sampled_from([math.inf, 100.0, 2.0])
LDA = Family.LDA.definition


def head_of(pool, shrinkage, pull):
    problem = pool.problem()
    return LDA.head(Candidate(Family.LDA, shrinkage=shrinkage, pull=pull), problem)


def centered(scores):
    return scores - scores.mean(axis=1, keepdims=True)


@settings(max_examples=40)
@given(pools(least=0), st.sampled_from([0.1, 3.0]), pulls)
def test_scores_are_log_densities_up_to_what_all_classes_share(pool, shrinkage, pull):
    assume(len(pool.labels) > 0)
    ridge = shrinkage * pool.server().scatter.variance
    expected = oracles.log_densities(
        pool.features, *oracles.discriminant(pool.everybody, pool.mine, 4, ridge, pull)
    )
    found = head_of(pool, shrinkage, pull).scores(pool.features)
    atol = 1e-8 * (1 + np.abs(expected).max() + np.abs(found).max())
    np.testing.assert_allclose(centered(found), centered(expected), rtol=0, atol=atol)


@settings(max_examples=40)
@given(pools(), pulls, st.permutations(range(4)))
def test_classes_in_another_order_are_the_same_classes(pool, pull, order):
    place = np.argsort(order)
    labels = place[pool.labels]
    sort = np.concatenate([np.argsort(labels[: pool.own]), np.arange(pool.own, len(labels))])
    other = Pool(pool.features[sort], labels[sort], pool.own, 4)
    one, two = (head_of(each, 0.3, pull) for each in (pool, other))
    for a, b in ((one.weight[:, order], two.weight), (one.bias[order], two.bias)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-9 * (1 + np.abs(a).max()))


@settings(max_examples=40)
@given(pools(), pulls, st.sampled_from([3.0, 100.0]))
def test_an_offset_of_all_features_changes_no_difference_of_scores(pool, pull, offset):
    moved = replace(pool, features=pool.features + offset)
    one, two = (centered(head_of(p, 0.3, pull).scores(p.features)) for p in (pool, moved))
    np.testing.assert_allclose(one, two, rtol=0, atol=1e-6 * (1 + np.abs(one).max()))


@settings(max_examples=40)
@given(federations())
def test_with_an_endless_pull_all_clients_have_the_same_head_and_else_their_own(federation):
    pool = Pool(federation.features, federation.labels, 0, federation.classes)
    server = pool.server()

    def heads(pull):
        for k in range(federation.clients):
            features, labels = own(federation, k)
            targets = oracles.one_hot(labels, federation.classes)
            count = np.bincount(labels, minlength=federation.classes)
            yield discriminant(server, targets.T @ features, count, 1.0, pull)

    first, *others = heads(math.inf)
    for one in others:
        np.testing.assert_array_equal(one.weight, first.weight)
        np.testing.assert_array_equal(one.bias, first.bias)
    for k, one in enumerate(heads(2.0)):
        if len(own(federation, k)[1]) == 0:
            np.testing.assert_array_equal(one.weight, first.weight)


@pytest.mark.parametrize("samples", [1, 6])
def test_a_small_pull_gives_the_clients_own_means(samples):
    pool = pool_of(np.random.default_rng(0), samples, 30, 5, 2)
    head, scatter = head_of(pool, 1.0, 1e-12), pool.server().scatter
    ridged = scatter.within + scatter.variance * np.eye(5)
    for c in np.unique(pool.mine[1]):
        mean = pool.mine[0][pool.mine[1] == c].mean(axis=0)
        np.testing.assert_allclose(ridged @ head.weight[:, c] + scatter.center, mean, atol=1e-9)


@pytest.mark.parametrize("pull", [math.inf, 7.0])
def test_weights_and_bias_solve_the_equations_that_sums_give(pull):
    rng = np.random.default_rng(0)
    rows, labels = rng.integers(-99, 99, (30, 4)).astype(np.int16), np.sort(rng.integers(0, 3, 30))
    mine, rest = (moments(rows[part], labels[part], 4, 0.5) for part in (slice(9), slice(9, 30)))
    pool = Pool(rows * 0.5, labels, 9, 4)
    assert (mine + rest).samples == len(pool.labels)
    one, server = Candidate(Family.LDA, shrinkage=0.3, pull=pull), pool.server()
    head, equations = LDA.head(one, pool.problem()), LDA.normal_equations(one, mine, server)
    np.testing.assert_allclose(
        equations.matrix @ head.weight, equations.right, rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(LDA.bias(one, head.weight, mine, server), head.bias, rtol=1e-12)


def test_a_class_that_nobody_has_is_at_the_mean_of_all():
    pool = pool_of(np.random.default_rng(0), 5, 20, 4, 3, present=2)
    head = head_of(pool, 1.0, 10.0)
    assert not head.weight[:, 2].any()
    assert head.bias[2] == 0.0


def test_noise_that_leaves_no_scatter_is_a_sentence():
    server = pool_of(np.random.default_rng(0), 5, 20, 4, 3).server()
    noisy = replace(server, gram=server.gram - 2 * np.trace(server.gram) * np.diag([1.0, 0, 0, 0]))
    with pytest.raises(InputError, match=r"set personalize\.shrinkage higher"):
        discriminant(noisy, np.zeros((3, 4)), np.zeros(3, int), 1.0, math.inf)
