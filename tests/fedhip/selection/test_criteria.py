"""The three criteria against loops, and their order among equals."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pfl.fedhip.selection import criteria
from pfl.fedhip.selection.criteria import SAFE, Criterion


def loss(criterion, residuals, labels):
    """Of one head; a second, worse one beside it must not matter."""
    both = np.stack([residuals, np.full_like(residuals, 9.0)], axis=1)
    return criteria.loss(criterion, both, labels)[0]


@st.composite
def scored(draw):
    n, d = draw(st.integers(1, 8)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    labels = rng.integers(0, d, n)
    return np.eye(d)[labels] - rng.normal(0.3, 0.4, (n, d)), labels


def scores(residuals, labels):
    return np.eye(residuals.shape[1])[labels] - residuals


@given(scored())
def test_margin_is_the_mean_shortfall_below_a_safe_margin(case):
    residuals, labels = case
    short = []
    for score, label in zip(scores(*case), labels, strict=True):
        margin = score[label] - max(np.delete(score, label))
        short.append(max(0.0, SAFE - margin))
    np.testing.assert_allclose(loss(Criterion.MARGIN, residuals, labels), np.mean(short))


@given(scored())
def test_squared_error_is_the_mean_over_samples(case):
    residuals, labels = case
    expected = np.mean([row @ row for row in residuals])
    np.testing.assert_allclose(loss(Criterion.SQUARED_ERROR, residuals, labels), expected)


@given(scored(), st.floats(0.5, 0.99))
def test_accuracy_counts_errors_first_and_squares_second(case, shrink):
    residuals, labels = case
    value = loss(Criterion.ACCURACY, residuals, labels) * len(labels)
    assert int(value) == np.sum(scores(*case).argmax(1) != labels)
    exact = np.zeros_like(residuals)
    better = np.where(np.eye(residuals.shape[1])[labels] > 0, residuals, exact)
    same = int(value) == np.sum(scores(better, labels).argmax(1) != labels)
    if same and np.abs(residuals - better).max() > 1e-3:
        assert loss(Criterion.ACCURACY, better, labels) * len(labels) < value


@given(scored())
def test_residuals_that_are_not_finite_never_win(case):
    residuals, labels = case
    residuals[0, 0] = np.nan
    for criterion in Criterion:
        assert loss(criterion, residuals, labels) == np.inf
