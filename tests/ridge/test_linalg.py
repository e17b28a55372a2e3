import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.errors import InputError
from pfl.ridge.linalg import (
    cholesky,
    definite,
    diagonal_positions,
    factor,
    least_eigenvalue,
    pack,
    syrk,
    triangle_size,
    unpack,
)

sizes = st.integers(1, 12)
seeds = st.integers(0, 2**32 - 1)


@given(sizes, st.integers(1, 5), seeds, st.floats(1e-3, 1e3))
def test_solutions_satisfy_the_system(m, r, seed, ridge):
    rng = np.random.default_rng(seed)
    rows, right = rng.normal(size=(2 * m, m)), rng.normal(size=(m, r))
    a = syrk(rows) + ridge * np.eye(m)
    solution = factor(syrk(rows), ridge).solve(right)
    np.testing.assert_allclose(a @ solution, right, atol=1e-9 * np.linalg.cond(a))


@given(sizes, seeds)
def test_the_two_half_solves_make_a_solve(m, seed):
    rng = np.random.default_rng(seed)
    lu = factor(syrk(rng.normal(size=(m + 3, m))), 0.5)
    right = rng.normal(size=(m, 2))
    both = lu.half_solve_transposed(lu.half_solve(right))
    np.testing.assert_allclose(both, lu.solve(right), rtol=1e-10, atol=1e-12)


@given(sizes, seeds)
def test_syrk_is_the_symmetric_product(m, seed):
    rows = np.random.default_rng(seed).normal(size=(7, m))
    np.testing.assert_allclose(syrk(rows), rows.T @ rows.copy(), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(syrk(rows), syrk(rows).T)
    np.testing.assert_array_equal(syrk(np.asfortranarray(rows)), syrk(rows))


@given(sizes, seeds)
def test_packing_loses_nothing(m, seed):
    half = np.random.default_rng(seed).integers(-(2**53), 2**53, (m, m))
    symmetric = np.triu(half) + np.triu(half, 1).T
    packed = pack(symmetric)
    assert packed.shape == (triangle_size(m),)
    np.testing.assert_array_equal(packed, symmetric[np.triu_indices(m)])
    np.testing.assert_array_equal(unpack(packed, m), symmetric)


@pytest.mark.parametrize("ridge", [0.0, -1.0, float("nan")])
def test_a_ridge_that_is_not_positive_is_refused(ridge):
    with pytest.raises(InputError, match="beta"):
        factor(np.eye(3), ridge)


@given(seeds, st.integers(1, 40), st.floats(-12, 3), st.sampled_from([1e-3, 1.0, 1e6]))
def test_what_is_not_refused_is_right_to_a_percent(seed, n, exponent, scale):
    """Against the dual form, whose system is well-conditioned when there are few samples."""
    rng = np.random.default_rng(seed)
    rows, targets = scale * rng.normal(size=(n, 60)), rng.normal(size=(n, 2))
    ridge = scale**2 * 10.0**exponent
    try:
        found = factor(syrk(rows), ridge).solve(rows.T @ targets)
    except InputError:
        assert ridge < 1e-10 * np.linalg.norm(rows, 2) ** 2
        return
    exact = rows.T @ np.linalg.solve(rows @ rows.T + ridge * np.eye(n), targets)
    np.testing.assert_allclose(found, exact, atol=0.01 * np.abs(exact).max())


def test_a_ridge_lost_in_rounding_is_refused_with_one_that_works():
    rows = np.random.default_rng(0).normal(size=(2, 30)) * 1e6
    with pytest.raises(InputError, match="rho to") as caught:
        factor(syrk(rows), 1e-12, name="rho")
    enough = float(str(caught.value).split("set rho to ")[1].split()[0])
    right = rows.T @ np.ones((2, 1))
    exact = rows.T @ np.linalg.solve(rows @ rows.T + enough * np.eye(2), np.ones((2, 1)))
    found = factor(syrk(rows), enough).solve(right)
    np.testing.assert_allclose(found, exact, atol=0.01 * np.abs(exact).max())


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_a_matrix_that_is_not_finite_is_refused(bad):
    with pytest.raises(InputError, match="lower alpha"):
        factor(np.array([[1.0, 0.0], [0.0, bad]]), 1.0, remedy="Please lower alpha.")


@pytest.mark.parametrize("last", [-1.0, 0.0, 1e-14, np.nan])
def test_a_matrix_that_is_not_safely_definite_is_refused_in_the_callers_words(last):
    with pytest.raises(InputError, match="of norm 2: set it higher"):
        definite(
            np.diag([2.0, last]), lambda norm: f"of norm {np.nanmax([norm, 2]):g}: set it higher"
        )


def test_cholesky_refuses_an_indefinite_matrix():
    with pytest.raises(np.linalg.LinAlgError):
        cholesky(np.diag([1.0, -1.0]))


@given(st.integers(0, 12))
def test_the_diagonal_is_found_in_the_triangle(size):
    matrix = np.arange(size * size).reshape(size, size)
    found = pack(matrix + matrix.T)[diagonal_positions(size)]
    np.testing.assert_array_equal(found, 2 * np.diag(matrix))


def test_the_least_eigenvalue_may_be_negative():
    assert least_eigenvalue(np.array([[0.0, 2.0], [2.0, 0.0]])) == pytest.approx(-2.0)
