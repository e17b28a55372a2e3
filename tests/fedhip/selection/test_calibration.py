"""Temperature and prior: what they must not depend on, what knowing nothing costs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl.fedhip.selection.calibration import PENALTY, SIZE, calibrate, unit_scale
from pfl.fedhip.selection.left_out_prior import left_out_log_ratio
from tests import oracles

seeds = st.integers(0, 2**32 - 1)
NEAR = 2e-3  # of weights: the solver ends a millionth of a nat above the minimum


def drawn(seed, n=20, d=4, heads=3):
    """Left-out scores of some heads that know something, labels and left-out priors."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(d, n, p=rng.dirichlet(np.full(d, 0.7)))
    scores = rng.normal(size=(n, heads, d)) + 2.0 * np.eye(d)[labels][:, None, :]
    return scores, labels, log_ratio(labels, rng.integers(0, 30, d), d)


def log_ratio(labels, others, d):
    own = np.bincount(labels, minlength=d)
    return left_out_log_ratio(own, own + others, 0.1)[labels]


def same(one, two, scale=1.0):
    np.testing.assert_allclose(one.objective, two.objective, atol=1e-5)
    np.testing.assert_allclose(one.prior, two.prior, atol=NEAR)
    np.testing.assert_allclose(one.scale * scale, two.scale, rtol=NEAR, atol=NEAR * two.scale.max())


@settings(max_examples=40)
@given(seeds, st.booleans())
def test_it_is_the_least_penalized_entropy(seed, counted):
    """And no s or γ near it is better."""
    scores, labels, ratio = drawn(seed)
    ratio = ratio if counted else None
    found, units = calibrate(scores, labels, ratio), unit_scale(scores)

    def entropy(b, sigma, prior):
        terms = [units[b] * scores[:, b], ratio if counted else np.zeros_like(scores[:, b])]
        return oracles.penalized_entropy(
            np.array([sigma, prior]), terms, labels, np.ones(2), np.array([PENALTY, PENALTY])
        )[0] - (0 if counted else PENALTY)

    for b in range(scores.shape[1]):
        here = found.scale[b] / units[b], found.prior[b]
        assert entropy(b, *here) == pytest.approx(found.objective[b], rel=1e-9)
        for move in ((0.1, 0.0), (-0.1, 0.0), *(((0.0, 0.1), (0.0, -0.1)) if counted else ())):
            there = np.maximum(np.add(here, move), 0.0)
            assert entropy(b, *there) >= found.objective[b] - 1e-6
    if not counted:
        assert not found.prior.any()


@settings(max_examples=40)
@given(seeds, st.integers(-30, 30), st.floats(1e-3, 1e3))
def test_multiplying_a_head_divides_its_scale_and_changes_nothing_else(seed, power, factor):
    scores, labels, ratio = drawn(seed)
    one, exact = calibrate(scores, labels, ratio), calibrate(scores * 2.0**power, labels, ratio)
    np.testing.assert_array_equal(exact.scale * 2.0**power, one.scale)
    np.testing.assert_array_equal(exact.prior, one.prior)
    np.testing.assert_array_equal(exact.objective, one.objective)
    same(calibrate(scores * factor, labels, ratio), one, factor)


@settings(max_examples=40)
@given(seeds, st.permutations(range(4)), st.permutations(range(20)))
def test_constants_of_a_sample_and_orders_do_not_matter(seed, classes, samples):
    scores, labels, ratio = drawn(seed)
    expected = calibrate(scores, labels, ratio)
    constant = np.random.default_rng(seed).normal(0, 9, (20, 3, 1))
    same(calibrate(scores + constant, labels, ratio), expected)
    place = np.argsort(classes)
    same(calibrate(scores[:, :, classes], place[labels], ratio[:, classes]), expected)
    same(calibrate(scores[samples], labels[samples], ratio[samples]), expected)


@given(seeds)
def test_at_the_unit_the_highest_score_leads_by_the_stated_size(seed):
    scores, _, _ = drawn(seed)
    scores[:, 0] = 7.0
    units = unit_scale(scores)
    assert units[0] == 0.0
    for b in (1, 2):
        rows = np.sort(units[b] * scores[:, b], axis=1)
        assert np.mean(rows[:, -1] - rows[:, :-1].mean(axis=1)) == pytest.approx(SIZE)


@pytest.mark.parametrize("d", [2, 10, 1000])
def test_one_high_score_among_equal_ones_is_as_sure_whatever_the_number_of_classes(d):
    scores = np.eye(d)[np.arange(5) % d][:, None, :]
    assert unit_scale(0.2 * scores + 3.0)[0] == pytest.approx(SIZE / 0.2)


def test_scores_that_differ_by_rounding_alone_say_nothing():
    rng = np.random.default_rng(0)
    scores = 30.0 + 1e-15 * rng.normal(size=(9, 2, 4))
    assert unit_scale(scores).tolist() == [0.0, 0.0]


SHAPES = [(n, d) for n in (1, 2, 30, 500) for d in (2, 100, 1000)] + [(5000, 2), (5000, 100)]


@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("concentration", [0.1, None])
def test_a_useful_head_costs_less_than_one_that_says_nothing(n, d, concentration):
    """Of clients whose classes are everybody's or few; useful is who is right, however faintly."""
    rng = np.random.default_rng(n + d)
    share = np.full(d, 1 / d) if concentration is None else rng.dirichlet(np.full(d, concentration))
    labels = rng.choice(d, n, p=share)
    truth = np.eye(d)[labels]
    scores = np.stack([np.zeros((n, d)), 1e-3 * (truth + 0.4 * rng.uniform(-1, 1, (n, d)))], 1)
    for ratio in (None, log_ratio(labels, rng.integers(1, 9, d), d)):
        found = calibrate(scores, labels, ratio)
        assert found.objective[1] < found.objective[0]
        assert found.scale[0] == 0.0
        assert found.scale[1] > 0.0


@settings(max_examples=40)
@given(seeds, st.integers(1, 40), st.sampled_from([2, 7, 100]))
def test_saying_nothing_costs_the_entropy_of_the_prior(seed, n, d):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, d, n)
    nothing = np.zeros((n, 1, d))
    without = calibrate(nothing, labels, None)
    assert without.objective[0] == pytest.approx(n * np.log(d))
    ratio = log_ratio(labels, rng.integers(0, 30, d), d)
    found = calibrate(nothing, labels, ratio)

    def entropy(prior):
        scores = prior * ratio
        own = scores[np.arange(n), labels]
        return np.sum(np.log(np.sum(np.exp(scores), axis=1)) - own) + PENALTY * (prior - 1) ** 2

    assert found.objective[0] == pytest.approx(entropy(found.prior[0]))
    assert found.objective[0] <= min(entropy(x) for x in np.linspace(0, 3, 31)) + 1e-5


@settings(max_examples=20)
@given(seeds)
def test_who_is_calibrated_and_whose_prior_is_true_keeps_both(seed):
    """Bayes' rule: labels drawn from s z + r give back s and γ = 1, over many samples."""
    rng = np.random.default_rng(seed)
    scores, ratio = rng.normal(0, 2, (4000, 5)), rng.normal(0, 1, 5)
    true = np.exp(scores + ratio)
    true /= true.sum(axis=1, keepdims=True)
    labels = (true.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1)
    found = calibrate(3.0 * scores[:, None, :], labels, np.tile(ratio, (4000, 1)))
    assert found.scale[0] == pytest.approx(1 / 3, rel=0.15)
    assert found.prior[0] == pytest.approx(1.0, abs=0.25)


@settings(max_examples=20)
@given(seeds, st.sampled_from([np.nan, np.inf]))
def test_a_head_of_no_numbers_costs_everything_and_scales_to_nothing(seed, bad):
    scores, labels, ratio = drawn(seed)
    expected = calibrate(scores, labels, ratio)
    scores[3, 1, 2] = bad
    with np.errstate(invalid="ignore"):
        found = calibrate(scores, labels, ratio)
    assert found.objective[1] == np.inf
    assert (found.scale[1], found.prior[1]) == (0.0, 0.0)
    np.testing.assert_allclose(found.objective[[0, 2]], expected.objective[[0, 2]], atol=1e-5)
