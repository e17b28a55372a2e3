"""Every closed form against exact fractions, at the extremes of data and parameters.

What a head may be off: ``BOUND``·ε·κ of its size, κ being the condition number of its system; see
docs/numbers.md. What float64 cannot resolve is refused with a sentence, and nothing that comes out
is off by more than a per cent.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from pfl.cli.verification.normal_equations import FLOAT64, allowed, backward_error
from pfl.errors import InputError
from pfl.fedhip.closed_form import aggregate
from pfl.fedhip.families.anchored_head import anchored_head
from pfl.fedhip.families.equation_14 import personalized_head
from pfl.fedhip.families.global_head import global_normal_equations
from pfl.fedhip.families.local_head import local_head
from pfl.fedhip.families.table import Candidate, Family
from pfl.fedhip.paper_recursion import paper_upload, recursive_global_head
from tests.exact import condition, exact, floats, solve
from tests.exact_cases import CLASSES, COLUMNS, Problem, Sums, columns, problems

EPSILON = 2.0**-52
BOUND = 32
PERCENT = 0.01
RESOLVED = 1e10  # nothing of a smaller condition number is refused


def sums_of(problem):
    """Exact sums of the client, and of all."""
    own = Sums.of(problem.rows[: problem.own], problem.labels[: problem.own], problem.step)
    rest = Sums.of(problem.rows[problem.own :], problem.labels[problem.own :], problem.step)
    return own, own + rest


def natural(problem, ridge):
    """‖F_k‖ ‖Y_k‖ / (‖F_k‖² + ridge): the size of a head whose targets the features explain."""
    size = np.linalg.norm(problem.features)
    return size * np.sqrt(problem.own) / (size**2 + ridge)


def check(make, matrix, right, kappa, size=0.0):
    """The head is right or refused; returns it, or None."""
    try:
        found = make()
    except InputError as error:
        assert kappa > RESOLVED, error
        return None
    true = floats(solve(matrix, right))
    error = np.linalg.norm(found - true)
    allowed = min(BOUND * EPSILON * kappa, PERCENT) * (np.linalg.norm(true) + size)
    assert error <= allowed, (error, allowed, kappa)
    return found


def check_all(problem):
    """All heads of one problem."""
    beta, alpha, rho = problem.beta, problem.alpha, problem.rho
    own, everybody = sums_of(problem)
    features, labels = problem.features, problem.mine()[1]
    rest = everybody - own
    whole, alone = everybody.ridged(beta), own.ridged(beta)
    kappa, kappa_own = condition(whole, beta), condition(alone, beta)

    def recursion():
        parts = [paper_upload(part, beta) for part in (problem.sent, problem.others)]
        return recursive_global_head(parts, beta)

    check(
        lambda: local_head(features, labels, CLASSES, beta),
        alone, own.cross, kappa_own, natural(problem, beta),
    )  # fmt: skip
    largest = max(np.linalg.norm(floats(solve(s.ridged(beta), s.cross))) for s in (own, rest))
    kappas = (kappa, kappa_own, condition(rest.ridged(beta), beta))
    check(recursion, whole, everybody.cross, max(kappas), largest)
    head = check(lambda: aggregate(problem.total, beta).head, whole, everybody.cross, kappa)
    if head is None:
        return
    server = aggregate(problem.total, beta)
    assert backward_error(global_normal_equations(server), head) <= FLOAT64
    drawn, size = own.ridged(rho), np.linalg.norm(head)
    anchored = check(
        lambda: anchored_head(head, features, labels, rho),
        drawn, own.cross + exact(rho) * exact(head), condition(drawn, rho),
        size + natural(problem, rho),
    )  # fmt: skip
    both = everybody + alpha * own
    of_14 = check(
        lambda: personalized_head(server, features, labels, alpha),
        both.ridged(beta), both.cross, max(kappa, condition(both.ridged(beta), beta)), size,
    )  # fmt: skip
    for one, found in (
        (Candidate(Family.ANCHORED, rho=rho), anchored),
        (Candidate(Family.FEDHIP, alpha=alpha, beta=beta), of_14),
    ):
        if found is not None:
            equations = one.family.definition.normal_equations(one, problem.sent, server)
            assert backward_error(equations, found) <= allowed(equations)


@settings(max_examples=60)
@given(problems())
def test_every_head_is_right_to_the_condition_of_its_system_or_refused(problem):
    check_all(problem)


KINDS = [*itertools.combinations_with_replacement(COLUMNS, 2)]


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_every_pair_of_columns(kinds):
    """Beside two plain ones; N_k of 0, 1, m, m + 1 and all (K = 1), at the ends of all ranges."""
    rng = np.random.default_rng(0)
    rows = rng.integers(-300, 301, (7, 4))
    columns(rows, ("drawn", "drawn", *kinds), rng)
    labels = rng.integers(0, CLASSES, 7)
    ends = itertools.cycle(itertools.product([1e-12, 1e12], [0.0, 1e-9, 1e9], [1e-12, 1e9]))
    for own in (0, 1, 4, 5, 7):
        for beta, alpha, rho in itertools.islice(ends, 3):
            check_all(Problem(rows.astype(np.int16), labels, own, 2.0**-8, beta, alpha, rho))
