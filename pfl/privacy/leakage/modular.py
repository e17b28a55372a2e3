"""Elimination in integers modulo a prime p: ranks, solutions and null vectors without a tolerance.

A Gram matrix of many features is so ill-conditioned that in floating point its rank is a matter of
judgment. Its entries are integers, and modulo p a number is zero or it is not. A rank modulo p is
at most the true one, and less only by an accident of chance about 1/p.

Residues are float64 between −p/2 and p/2, so that BLAS multiplies them: with p < 2²³ a product is
below 2⁴⁴ and a sum of 2⁹ products exact.
"""

import numpy as np
from jaxtyping import Float, Integer

PRIME = 8388593  # the largest below 2²³
EXACT_TERMS = 2**9
BLOCK = 64


def residues(values: Integer[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Integers modulo p."""
    return reduced(np.remainder(values.astype(np.int64), PRIME).astype(np.float64))


def reduced(values: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Whole numbers below 2⁵³ modulo p: exact, and 0 for multiples of p alone."""
    quotient = values * (1.0 / PRIME)
    np.rint(quotient, out=quotient)
    quotient *= PRIME
    return np.subtract(values, quotient, out=quotient)


def random_residues(shape: tuple[int, ...], rng: np.random.Generator) -> Float[np.ndarray, "*s"]:
    """Independent, uniform residues."""
    return reduced(rng.integers(0, PRIME, shape).astype(np.float64))


def times(
    left: Float[np.ndarray, "n r"], right: Float[np.ndarray, "r c"]
) -> Float[np.ndarray, "n c"]:
    """Product of residues."""
    total = np.zeros((left.shape[0], right.shape[1]))
    for start in range(0, left.shape[1], EXACT_TERMS):
        part = slice(start, start + EXACT_TERMS)
        total = reduced(total + reduced(left[:, part] @ right[part]))
    return total


def eliminate(matrix: Float[np.ndarray, "m c"], pivots: int) -> int:
    """Gauss–Jordan in place on the first ``pivots`` rows and columns, without exchanges.

    It stops at the first pivot that is zero, the r-th counted from 0, and returns r. With the
    leading (r, r) block A, the rows [A B] have become [· A⁻¹B] and those below, [C D],
    [· D − CA⁻¹B]; the first r columns are no longer of use.

    Notes:
        Pivots come in blocks, so that nearly all work is in matrix products: 2 m² c flops at most.
    """
    for start in range(0, pivots, BLOCK):
        stop = min(start + BLOCK, pivots)
        inverse = leading_inverse(matrix[start:stop, start:stop])
        end = start + len(inverse)
        rows = times(inverse, matrix[start:end, end:])
        for others in (slice(0, start), slice(end, None)):
            change = matrix[others, start:end] @ rows
            matrix[others, end:] = reduced(matrix[others, end:] - change)
        matrix[start:end, end:] = rows
        if end < stop:
            return end
    return pivots


def leading_inverse(matrix: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "r r"]:
    """Inverse of the largest leading block that elimination without exchanges gets through."""
    swept = matrix.copy()
    for k in range(len(swept)):
        pivot = int(swept[k, k])
        if pivot == 0:
            return swept[:k, :k].copy()
        inverse = float(pow(pivot, -1, PRIME))
        row, column = reduced(swept[k] * inverse), swept[:, k].copy()
        swept = reduced(swept - np.outer(column, row))
        swept[k], swept[:, k] = row, reduced(-column * inverse)
        swept[k, k] = inverse
    return reduced(swept)
