import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.cli.verification.normal_equations import (
    FLOAT32,
    FLOAT64,
    allowed,
    backward_error,
    sum_error,
)
from pfl.data.features.fixed_point import dequantize
from pfl.fedhip.affine_head import weighted_sum
from pfl.fedhip.closed_form import aggregate
from pfl.fedhip.families.anchored_head import anchored_head
from pfl.fedhip.families.client_problem import ClientProblem, Pooled
from pfl.fedhip.families.family import NormalEquations
from pfl.fedhip.families.global_head import global_normal_equations
from pfl.fedhip.families.table import Candidate, Family
from pfl.fedhip.moments import moments
from pfl.ridge.linalg import spectrum

STEP, CLASSES = 2.0**-8, 3
CANDIDATES = [
    Candidate(Family.FEDHIP, alpha=3.0, beta=0.5),
    Candidate(Family.FEDHIP, alpha=0.0, beta=0.5),
    Candidate(Family.ANCHORED, rho=2.0),
    Candidate(Family.LDA, shrinkage=0.3, pull=4.0),
    Candidate(Family.LOCAL, beta=0.1),
    Candidate(Family.GLOBAL),
]


def made(one, seed, samples):
    """A client's sums, the server's answer, and the head of a candidate."""
    rng = np.random.default_rng(seed)
    draw = lambda n: (  # noqa: E731
        rng.integers(-1000, 1000, (n, 6)).astype(np.int16),
        np.sort(rng.integers(0, CLASSES, n)),
    )
    own, others = draw(samples), draw(20)
    sums = moments(*own, CLASSES, STEP)
    total = sums + moments(*others, CLASSES, STEP)
    server = aggregate(total, 0.5)
    features, labels = dequantize(own[0], STEP), own[1]
    problem = ClientProblem(Pooled(server, spectrum(server.gram)), features, labels)
    return sums, server, one.family.definition.head(one, problem)


@pytest.mark.parametrize("one", CANDIDATES, ids=str)
@given(st.integers(0, 1000), st.integers(0, 12))
def test_a_head_of_each_family_solves_its_system(one, seed, samples):
    sums, server, head = made(one, seed, samples)
    equations = one.family.definition.normal_equations(one, sums, server)
    assert backward_error(equations, head.weight) <= FLOAT64
    assert backward_error(equations, stored(head.weight)) <= FLOAT32
    error, limit = sum_error([(one, 1.0)], sums, server, stored(head.weight), stored(head.bias))
    assert error <= limit


def stored(values):
    """As they are in heads.h5."""
    return values.astype(np.float32).astype(np.float64)


@given(
    st.integers(0, 1000),
    st.integers(0, 12),
    st.lists(st.floats(0.01, 100.0), min_size=1, max_size=6),
)
def test_a_sum_of_heads_is_what_its_parts_give(seed, samples, factors):
    parts = list(zip(CANDIDATES, factors, strict=False))
    heads = [made(one, seed, samples) for one, _ in parts]
    sums, server, _ = heads[0]
    total = weighted_sum(factors, [head for *_, head in heads])
    weight, bias = stored(total.weight), stored(total.bias)
    error, limit = sum_error(parts, sums, server, weight, bias)
    assert error <= limit
    for wrong in (weight * 1.001, weight + 0.001 * np.abs(weight).max()):
        error, limit = sum_error(parts, sums, server, wrong, bias)
        assert error > limit
    error, limit = sum_error(parts, sums, server, weight, bias + 0.01 * np.abs(weight).max())
    assert error > limit


def test_a_head_of_no_parts_and_a_bias_where_none_belongs_are_wrong():
    one = Candidate(Family.GLOBAL)
    sums, server, head = made(one, 0, 8)
    error, limit = sum_error([], sums, server, head.weight, head.bias)
    assert error > limit
    error, limit = sum_error([(one, 1.0)], sums, server, head.weight, head.bias + 1e-30)
    assert error > limit


@pytest.mark.parametrize("one", CANDIDATES, ids=str)
def test_a_head_that_is_a_little_off_does_not(one):
    sums, server, head = made(one, 0, 8)
    head = head.weight.copy()
    head[np.unravel_index(np.abs(head).argmax(), head.shape)] *= 1.001
    assert backward_error(one.family.definition.normal_equations(one, sums, server), head) > FLOAT32


@given(st.floats(1e-6, 1e6), st.integers(0, 100))
def test_the_error_has_no_unit(factor, seed):
    rng = np.random.default_rng(seed)
    matrix, head = rng.normal(size=(4, 4)), rng.normal(size=(4, 2))
    right, start = rng.normal(size=(2, 4, 2))
    expected = backward_error(NormalEquations(matrix, right, start), head)
    scaled = backward_error(NormalEquations(factor * matrix, right * factor, start), head)
    assert scaled == pytest.approx(expected, rel=1e-9)


def test_a_class_that_nobody_has_is_no_error():
    assert backward_error(NormalEquations(np.eye(2), *np.zeros((2, 2, 1))), np.zeros((2, 1))) == 0.0


def test_the_system_leaves_the_servers_gram_as_it_is():
    _, server, _ = made(CANDIDATES[0], 0, 4)
    before = server.gram.copy()
    global_normal_equations(server)
    np.testing.assert_array_equal(server.gram, before)


def test_rounding_of_the_anchor_is_no_error():
    """With a tiny ρ nothing is left of G for the class that the client lacks, but rounding."""
    own = moments(np.array([[100]], np.int16), np.array([0]), 2, STEP)
    everybody = own + moments(np.array([[-90], [80]], np.int16), np.array([0, 1]), 2, STEP)
    server, one = aggregate(everybody, 0.5), Candidate(Family.ANCHORED, rho=1e-12)
    head = anchored_head(server.head, np.array([[100 * STEP]]), np.array([0]), one.rho)
    equations = one.family.definition.normal_equations(one, own, server)
    assert backward_error(equations, head) <= FLOAT64
    assert backward_error(equations, head + 0.001 * server.head) > FLOAT32


def test_what_is_allowed_grows_with_the_condition_number_alone():
    well, badly = (
        NormalEquations(np.diag([1.0, small]), *np.zeros((2, 2, 1))) for small in (1e-3, 1e-9)
    )
    assert allowed(well) == FLOAT32
    assert allowed(badly) == pytest.approx(32 * 2.0**-52 * 1e9)
