"""Linear algebra in exact fractions, for what float64 is compared with."""

from fractions import Fraction

import numpy as np


def exact(values):
    """An array of fractions; every float64 is one."""
    array = np.asarray(values, dtype=np.float64)
    found = np.empty(array.shape, object)
    found[...] = 0
    for place, value in np.ndenumerate(array):
        found[place] = Fraction(value.item())
    return found


def floats(values):
    """The nearest float64 of each fraction."""
    return np.array([float(value) for value in values.flat]).reshape(values.shape)


def identity(size, ridge):
    """ridge·I."""
    return exact(np.eye(size)) * Fraction(ridge)


def solve(matrix, right):
    """C⁻¹R for C symmetric positive definite, whose pivots are never zero."""
    matrix, right = matrix.copy(), right.copy()
    for pivot in range(len(matrix)):
        for row in range(len(matrix)):
            if row != pivot and matrix[row, pivot] != 0:
                share = matrix[row, pivot] / matrix[pivot, pivot]
                matrix[row, pivot:] = matrix[row, pivot:] - share * matrix[pivot, pivot:]
                right[row] = right[row] - share * right[pivot]
    return right / np.diagonal(matrix)[:, None]


def extremes(matrix, ridge):
    """Largest and least eigenvalue of C = S + ridge·I, the latter at least the ridge."""
    values = np.linalg.eigvalsh(floats(matrix))
    return values[-1], max(values[0], ridge)


def condition(matrix, ridge):
    """κ = ‖C‖ ‖C⁻¹‖; above 10¹⁵, a lower bound at the least."""
    largest, least = extremes(matrix, ridge)
    return largest / least
