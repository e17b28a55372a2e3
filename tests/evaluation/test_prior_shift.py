import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax

from pfl.errors import InputError
from pfl.evaluation import prior_shift
from pfl.evaluation.prior_shift import LEVEL, estimate_prior

MEANS = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
SOURCE = np.array([0.4, 0.3, 0.2, 0.1])


def simulated(rng, n, shares, source=SOURCE):
    """Log-posteriors under ``source`` of points around four centres that come in other shares."""
    label = rng.choice(len(shares), n, p=shares)
    points = MEANS[label] + rng.normal(size=(n, 2))
    squares = ((points[:, None, :] - MEANS) ** 2).sum(2)
    return log_softmax(np.log(source) - squares / 2, axis=1)


def log_likelihood(posteriors, source, shares):
    return np.log((np.exp(posteriors) * shares / source).sum(1)).sum()


posteriors = st.integers(0, 10_000).map(
    lambda seed: log_softmax(
        2 * np.random.default_rng(seed).normal(size=(1 + seed % 40, 2 + seed % 5)), axis=1
    )
)


def some_prior(d, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(d)) * 0.9 + 0.1 / d


@given(posteriors)
def test_no_step_lowers_the_likelihood(given_posteriors):
    source = some_prior(given_posteriors.shape[1])
    found = [0.0]
    with pytest.MonkeyPatch.context() as patch:
        for most in range(1, 12):
            patch.setattr(prior_shift, "MOST", most)
            estimate = estimate_prior(given_posteriors, source)
            found.append(log_likelihood(given_posteriors, source, estimate.shares))
            assert estimate.statistic == pytest.approx(2 * found[-1], abs=1e-9)
    assert (np.diff(found) >= -1e-10).all()


@given(posteriors)
def test_no_other_shares_are_likelier(given_posteriors):
    d = given_posteriors.shape[1]
    source = some_prior(d)
    best = estimate_prior(given_posteriors, source)
    assert best.shares.sum() == pytest.approx(1)
    assert (best.shares >= 0).all()
    reached = log_likelihood(given_posteriors, source, best.shares)
    others = [*np.eye(d), *np.random.default_rng(1).dirichlet(np.ones(d), 50), best.shares]
    for other in others:
        mixed = 0.01 * other + 0.99 * best.shares
        assert log_likelihood(given_posteriors, source, mixed) <= reached + 1e-4


def test_the_estimate_is_a_fixed_point():
    """The mean of the posteriors under the estimated shares is these shares (2.9)."""
    found = simulated(np.random.default_rng(0), 2000, SOURCE[::-1])
    shares = estimate_prior(found, SOURCE).shares
    adjusted = np.exp(log_softmax(found + np.log(shares / SOURCE), axis=1))
    np.testing.assert_allclose(adjusted.mean(0), shares, atol=1e-6)
    again = estimate_prior(np.log(adjusted), shares)
    np.testing.assert_allclose(again.shares, shares, atol=1e-6)
    assert again.p_value == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("shares", [[0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 0.5, 0.5], [1, 0, 0, 0]])
def test_shifted_shares_are_found(shares):
    n = 4000
    estimate = estimate_prior(simulated(np.random.default_rng(1), n, shares), SOURCE)
    assert estimate.differs
    # Labels alone would leave 1/(2√n) at most; the overlap of the classes costs some more.
    np.testing.assert_allclose(estimate.shares, shares, atol=4 * 1.5 / (2 * np.sqrt(n)))


def test_shares_that_did_not_move_are_told_to_have_moved_as_often_as_the_level_says():
    rng, runs = np.random.default_rng(2), 1000
    rejected = sum(estimate_prior(simulated(rng, 200, SOURCE), SOURCE).differs for _ in range(runs))
    assert rejected / runs == pytest.approx(LEVEL, abs=4 * np.sqrt(LEVEL * (1 - LEVEL) / runs))


def test_a_class_that_the_source_excludes_stays_out():
    source = np.array([0.5, 0.5, 0.0])
    found = log_softmax(np.random.default_rng(3).normal(size=(50, 3)), axis=1)
    estimate = estimate_prior(found, source)
    without = estimate_prior(found[:, :2], source[:2])
    assert estimate.shares[2] == 0
    np.testing.assert_array_equal(estimate.shares[:2], without.shares)
    assert estimate.p_value == without.p_value


@given(posteriors, st.floats(-5, 5))
def test_a_constant_of_each_sample_and_the_order_of_samples_do_not_matter(found, constant):
    source = some_prior(found.shape[1])
    one, other = estimate_prior(found, source), estimate_prior(found[::-1] + constant, source)
    np.testing.assert_allclose(one.shares, other.shares, atol=1e-6)
    assert one.statistic == pytest.approx(other.statistic, abs=1e-6)


def test_posteriors_of_certainty_are_counted():
    label = np.array([0, 1, 1, 2])
    with np.errstate(divide="ignore"):
        certain = np.log(np.eye(3)[label])
    np.testing.assert_allclose(
        estimate_prior(certain, np.full(3, 1 / 3)).shares, [0.25, 0.5, 0.25], atol=1e-9
    )


def test_what_says_nothing_is_refused():
    with pytest.raises(InputError, match="no samples"):
        estimate_prior(np.empty((0, 3)), np.full(3, 1 / 3))
    with pytest.raises(InputError, match="no finite class scores"):
        estimate_prior(np.full((2, 3), np.nan), np.full(3, 1 / 3))
    with pytest.raises(InputError, match="no finite class scores"):
        estimate_prior(np.full((2, 3), -np.inf), np.full(3, 1 / 3))
