"""Symmetric positive definite systems: factor once, solve many; the only caller of scipy.linalg.

Everything is float64. Nothing is ever inverted: a head is a solution of normal equations, and the
same factor serves every right-hand side.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int, Shaped

from pfl.errors import InputError

WORST = 1e-13  # reciprocal condition number: beyond it, three digits of a solution are left


@dataclass(frozen=True)
class Factor:
    """Cholesky factor L of a symmetric positive definite A = L Lᵀ."""

    lower: Float[np.ndarray, "m m"]

    def solve(self, right: Float[np.ndarray, "m r"]) -> Float[np.ndarray, "m r"]:
        """A⁻¹ R, by two triangular solves."""
        solution: np.ndarray = scipy.linalg.cho_solve((self.lower, True), right, check_finite=False)
        return solution

    def half_solve(self, right: Float[np.ndarray, "m r"]) -> Float[np.ndarray, "m r"]:
        """L⁻¹ R; with R = Fᵀ its Gram is F A⁻¹ Fᵀ."""
        return self._triangular(right, transposed=0)

    def half_solve_transposed(self, right: Float[np.ndarray, "m r"]) -> Float[np.ndarray, "m r"]:
        """L⁻ᵀ R, the other half: A⁻¹ R = L⁻ᵀ (L⁻¹ R)."""
        return self._triangular(right, transposed=1)

    def _triangular(self, right: np.ndarray, transposed: int) -> np.ndarray:
        solution: np.ndarray = scipy.linalg.solve_triangular(
            self.lower, right, lower=True, trans=transposed, check_finite=False
        )
        return solution


def factor(
    matrix: Float[np.ndarray, "m m"], ridge: float, name: str = "beta", remedy: str | None = None
) -> Factor:
    """Cholesky factor of A + ridge·I, for A symmetric positive semidefinite.

    With ridge > 0 the sum is positive definite, so no singular system can occur. But float64 loses
    a ridge that is tiny beside A: solutions then err by about ε/rcond, relatively, and a system
    with an estimated reciprocal condition number below ``WORST`` is refused rather than solved
    wrongly.

    Raises:
        InputError: the ridge, by the ``name`` that the user has for it, is not positive, or lost
            beside A; ``remedy`` in place of the advice to raise it.
    """
    if not ridge > 0:
        raise InputError(f"The ridge {name} is {ridge:g} but must be positive: set {name} above 0.")
    lost = (
        f"The ridge {name} = {ridge:g} is lost in float64 beside this Gram matrix: set {name} to "
    )
    return definite(
        ridged(matrix, ridge), lambda norm: remedy or f"{lost}{10 * WORST * norm:.1g} or more."
    )


def definite(matrix: Float[np.ndarray, "m m"], remedy: Callable[[float], str]) -> Factor:
    """Cholesky factor of A, symmetric positive definite and not too close to a singular one.

    Raises:
        InputError: A is indefinite, or its estimated reciprocal condition number below ``WORST``;
            with what ``remedy`` says, given ‖A‖₁.
    """
    norm = float(np.abs(matrix).sum(axis=0).max(initial=0.0))
    result = try_cholesky(matrix)
    if result is None or not _reciprocal_condition(result, norm) >= WORST:
        raise InputError(remedy(norm))
    return result


def _reciprocal_condition(chol: Factor, norm: float) -> float:
    """LAPACK's estimate of 1/(‖A‖₁‖A⁻¹‖₁) from A's factor and ‖A‖₁, in O(m²); NaN if not finite."""
    if not np.isfinite(norm):
        return np.nan
    if norm == 0.0 or len(chol.lower) == 0:
        return 1.0
    rcond, _ = scipy.linalg.lapack.dpocon(chol.lower, norm, uplo="L")
    return float(rcond)


def condition(matrix: Float[np.ndarray, "m m"], chol: Factor) -> float:
    """LAPACK's estimate of κ = ‖A‖₁ ‖A⁻¹‖₁ from A and its factor, in O(m²)."""
    return 1.0 / _reciprocal_condition(chol, float(np.abs(matrix).sum(axis=0).max(initial=0.0)))


def cholesky(matrix: Float[np.ndarray, "m m"]) -> Factor:
    """Cholesky factor of A, symmetric positive definite; ``LinAlgError`` when it is not."""
    return Factor(scipy.linalg.cholesky(matrix, lower=True, check_finite=False))


def try_cholesky(matrix: Float[np.ndarray, "m m"]) -> Factor | None:
    """Cholesky factor of a symmetric matrix; None where it is not positive definite."""
    try:
        return cholesky(matrix)
    except np.linalg.LinAlgError:
        return None


def ridged(matrix: Float[np.ndarray, "m m"], ridge: float) -> Float[np.ndarray, "m m"]:
    """A + ridge·I, in a copy."""
    shifted = np.array(matrix, order="F")
    shifted[np.diag_indices_from(shifted)] += ridge
    return shifted


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues λ ≥ 0, ascending, and orthonormal eigenvectors U of A = U Λ Uᵀ."""

    values: Float[np.ndarray, " m"]
    vectors: Float[np.ndarray, "m m"]


def spectrum(matrix: Float[np.ndarray, "m m"]) -> Spectrum:
    """Spectrum of A, symmetric positive semidefinite; eigenvalues that round below 0 are 0.

    NumPy rather than SciPy for the reason given at :func:`syrk`.
    """
    values, vectors = np.linalg.eigh(matrix)
    return Spectrum(np.maximum(values, 0.0), vectors)


def least_eigenvalue(matrix: Float[np.ndarray, "m m"]) -> float:
    """The least eigenvalue of a symmetric matrix, which need not be positive semidefinite."""
    return float(np.linalg.eigvalsh(matrix)[0])


def syrk(rows: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "m m"]:
    """FᵀF. NumPy sees one buffer on both sides and calls BLAS ``syrk``, half a ``gemm``.

    NumPy rather than ``scipy.linalg.blas.dsyrk`` since it frees the interpreter lock, so that
    threads can work on several clients at once.
    """
    rows = np.ascontiguousarray(rows)
    return rows.T @ rows


def ridge_fit(
    features: Float[np.ndarray, "n m"],
    targets: Float[np.ndarray, "n d"],
    ridge: float,
    name: str = "beta",
    small: Float[np.ndarray, "r r"] | None = None,
) -> Float[np.ndarray, "m d"]:
    """(FᵀF + ridge·I)⁻¹ FᵀY, the W of least ‖Y − FW‖² + ridge·‖W‖².

    With no more samples than features the equal form Fᵀ (FFᵀ + ridge·I)⁻¹ Y is cheaper. Without
    samples W is zero. ``small`` is :func:`small_gram` of F, where it is at hand.
    """
    samples, width = features.shape
    matrix = small_gram(features) if small is None else small
    if samples > width:
        return factor(matrix, ridge, name).solve(features.T @ targets)
    return features.T @ factor(matrix, ridge, name).solve(targets)


def small_gram(features: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "r r"]:
    """FFᵀ, or FᵀF where there are more samples than features."""
    samples, width = features.shape
    return syrk(features) if samples > width else syrk(features.T)


@functools.lru_cache(maxsize=4)
def _upper(size: int) -> np.ndarray:
    """Flat positions of the upper triangle of a (size, size) matrix, row by row."""
    rows, columns = np.triu_indices(size)
    return rows * size + columns


def triangle_size(size: int) -> int:
    """Entries of a packed triangle: m (m + 1) / 2."""
    return size * (size + 1) // 2


def diagonal_positions(size: int) -> Int[np.ndarray, " m"]:
    """Where the diagonal is in a packed triangle."""
    return np.cumsum(np.arange(size, 0, -1)) - np.arange(size, 0, -1)


def pack(matrix: Shaped[np.ndarray, "m m"]) -> Shaped[np.ndarray, " triangle"]:
    """Upper triangle of a symmetric matrix, row by row; the inverse of :func:`unpack`."""
    packed: np.ndarray = np.take(np.ascontiguousarray(matrix).reshape(-1), _upper(len(matrix)))
    return packed


def unpack(
    triangle: Int[np.ndarray, " triangle"] | Float[np.ndarray, " triangle"], size: int
) -> Float[np.ndarray, "m m"]:
    """Symmetric float64 matrix of a packed upper triangle."""
    full = np.zeros((size, size))
    full.reshape(-1)[_upper(size)] = triangle
    upper = np.triu(full, 1)
    full += upper.T
    return full
