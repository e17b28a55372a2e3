"""Left-out scores and GCV against exact refits, at the extremes of data and parameters.

A score is right to a per cent of a label's 1 and its own size, or NaN: then the head it belongs
to is not chosen. Where float64 resolves the system it is never NaN.
"""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl.errors import InputError
from pfl.fedhip.closed_form import aggregate
from pfl.fedhip.families.table import FAMILIES, Candidate, Family
from pfl.fedhip.moments import moments
from pfl.fedhip.selection.candidates import PersonalizeSettings
from pfl.fedhip.selection.choice import choose, prepare_choice
from pfl.ridge.gcv import LOWEST, choose_beta, global_path
from pfl.ridge.grid import decades
from tests.exact import exact, extremes, floats, identity, solve
from tests.exact_cases import CLASSES, Problem, Sums, columns, problems
from tests.fedhip.problems import problem_of
from tests.ridge.test_numbers import sums_of

RIDGES = tuple(family for family in FAMILIES if family is not Family.LDA)


def refitted(problem, family, own, everybody):
    """The head of a family from exact sums: its system, right-hand side and ridge."""
    beta, alpha, rho = problem.beta, problem.alpha, problem.rho
    if family is Family.LOCAL:
        return own.ridged(beta), own.cross, beta
    if family is Family.FEDHIP:
        both = everybody + alpha * own
        return both.ridged(beta), both.cross, beta
    if family is Family.GLOBAL:
        return everybody.ridged(beta), everybody.cross, beta
    anchor = solve(everybody.ridged(beta), everybody.cross)
    return own.ridged(rho), own.cross + Fraction(rho) * anchor, rho


def strain(problem, family, own, everybody):
    """Largest eigenvalue of the systems over the least of those without one of the samples."""
    sides = {family, Family.GLOBAL} - ({Family.GLOBAL} if family is Family.LOCAL else set())
    found = 1.0
    for side in sides:
        matrix, _, ridge = refitted(problem, side, *sums_of(problem))
        least = extremes(refitted(problem, side, own, everybody)[0], ridge)[1]
        found = max(found, extremes(matrix, ridge)[0] / least)
    return found


def residuals(problem, family):
    """Of the library, without a warning."""
    rows, labels = problem.features, problem.mine()[1]
    own = problem_of(aggregate(problem.total, problem.beta), rows, labels)
    one = Candidate(family, alpha=problem.alpha, beta=problem.beta, rho=problem.rho)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = family.definition.leave_one_out(own, one)(np.array([one.along]))[:, 0]
    return np.eye(CLASSES)[labels] - scores


def check_residuals(problem, family):
    """Every residual against a refit without its sample."""
    try:
        aggregate(problem.total, problem.beta)
    except InputError:
        return
    own, everybody = sums_of(problem)
    rows, labels = problem.mine()
    found = residuals(problem, family)
    for i in range(len(rows)):
        sample = Sums.of(rows[i : i + 1], labels[i : i + 1], problem.step)
        less = own - sample, everybody - sample
        if not np.isfinite(found[i]).all():
            assert strain(problem, family, *less) > 1e5
            continue
        matrix, right, _ = refitted(problem, family, *less)
        feature = exact(rows[i : i + 1]) * Fraction(problem.step)
        true = np.eye(CLASSES)[labels[i]] - floats(feature.dot(solve(matrix, right)))[0]
        np.testing.assert_allclose(found[i], true, rtol=0, atol=0.01 * (1 + np.abs(true).max()))


@settings(max_examples=50)
@given(problems(max_width=4, max_samples=7, least=1), st.sampled_from(RIDGES))
def test_residuals_are_right_or_said_to_be_unknown(problem, family):
    check_residuals(problem, family)


@pytest.mark.parametrize("family", RIDGES)
@pytest.mark.parametrize("kind", ["drawn", "near", "zero", "alone"])
@pytest.mark.parametrize(("samples", "own"), [(3, 3), (4, 4), (6, 3)])
def test_residuals_while_the_ridges_vanish(family, kind, samples, own):
    """Of m = 3; without a sample the ridge alone may say how its direction is weighed."""
    rng = np.random.default_rng(1)
    rows = rng.integers(-300, 301, (samples, 3))
    columns(rows, ("drawn", "drawn", kind), rng)
    labels = rng.integers(0, CLASSES, samples)
    for power in range(-14, 6):
        ridge = 3.0 * 10.0**power
        for alpha in (0.0, 1.0, 1e9) if family is Family.FEDHIP else (0.0,):
            check_residuals(
                Problem(rows.astype(np.int16), labels, own, 2.0**-8, ridge, alpha, ridge), family
            )


@settings(max_examples=40)
@given(problems(), st.booleans(), st.sampled_from(list(Family)))
def test_a_choice_ends_with_finite_heads_or_a_sentence_and_without_a_warning(
    problem, fixed, family
):
    """With everything open but, in half of the cases, the ridges."""
    numbers = {"beta": problem.beta, "rho": problem.rho} if fixed else {}
    rows, labels = problem.features, problem.mine()[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            server = aggregate(problem.total, problem.beta)
            alternatives = prepare_choice(server, PersonalizeSettings(family, **numbers))
            chosen = choose(alternatives, rows, labels)
        except InputError:
            return
    for kept in chosen.kept.values():
        for value in (kept.head.weight, kept.head.bias, kept.scale, kept.prior):
            assert np.isfinite(value).all()
    assert np.isfinite(chosen.log_ratio).all()
    for number in chosen.member[chosen.member >= 0] if len(labels) > 1 else ():
        known = np.isfinite(chosen.objective[number])
        assert known or family not in (Family.AUTO, Family.GLOBAL)


def exact_gcv(rows, labels, step, beta):
    """From the samples, by the (N, N) system, which serves N ≤ m."""
    features, n = exact(rows) * Fraction(step), len(rows)
    kernel = features.dot(features.T) + identity(n, beta)
    inverse = solve(kernel, identity(n, 1))
    left = Fraction(beta) * inverse.dot(exact(np.eye(CLASSES)[labels]))
    rest = sum(value * value for value in left.flat)
    freedom = Fraction(beta) * sum(inverse[i, i] for i in range(n))
    return float(n * rest / freedom**2)


@pytest.mark.parametrize(("samples", "width"), [(1, 300), (2, 64), (4, 64), (5, 5)])
@pytest.mark.parametrize("limit", [3, 32767])
def test_gcv_is_never_below_the_truth(samples, width, limit):
    """A ridge that only rounding makes look good is not chosen, however few the samples."""
    rng = np.random.default_rng(samples)
    rows = rng.integers(-limit, limit + 1, (samples, width)).astype(np.int16)
    labels = np.sort(rng.integers(0, CLASSES, samples))
    path = global_path(*moments(rows, labels, CLASSES, 2.0**-8).ridge_sums())
    largest = path.spectrum.values[-1]
    for beta in decades(LOWEST * largest, largest, 1):
        assert path.gcv(beta) >= 0.99 * exact_gcv(rows, labels, 2.0**-8, beta)
    assert choose_beta(path) >= LOWEST * largest
