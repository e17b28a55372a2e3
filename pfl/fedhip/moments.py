"""What a client sends: its integer Gram matrix, class sums and class counts, which add exactly.

FedHiP's server needs of client k only F_kᵀF_k and F_kᵀY_k. With features in fixed point, F = q·step
and q int16, both are integers times a power of two. A product of two entries is below 2³⁰, so a
float64 sum of up to 2²³ of them is exact whatever the order, blocking or threads; longer sums go
through int64. Equal samples therefore give equal bytes however they are split over clients, which
makes Theorem 3 (heterogeneity invariance) hold bit for bit.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Int16, Int64

from pfl.errors import InputError
from pfl.ridge.linalg import pack, syrk, triangle_size, unpack

EXACT_ROWS = 2**53 // 2**30
BLOCK_ROWS = 4096


@dataclass(frozen=True, eq=False)
class Moments:
    """Second moments of labelled fixed-point features; a commutative monoid under ``+``.

    ``moments(a ++ b) == moments(a) + moments(b)`` exactly, ``Moments.zero`` is neutral, and
    ``-`` takes samples out again: ``(x + y) - y == x`` exactly. ``==`` compares all integers and
    the step; moments have no hash, as their arrays have none.

    Attributes:
        gram: upper triangle of qᵀq, row by row, in units of step².
        cross: qᵀY transposed: the sum of q over each class's samples, in units of step.
        count: samples per class, YᵀY's diagonal.
        step: the fixed-point unit, a power of two.
    """

    gram: Int64[np.ndarray, " triangle"]
    cross: Int64[np.ndarray, "d m"]
    count: Int64[np.ndarray, " d"]
    step: float

    @classmethod
    def zero(cls, features: int, classes: int, step: float) -> "Moments":
        """The moments of no samples."""
        return cls(
            np.zeros(triangle_size(features), np.int64),
            np.zeros((classes, features), np.int64),
            np.zeros(classes, np.int64),
            step,
        )

    __hash__ = None  # type: ignore[assignment]  # Python's way to say so

    def __eq__(self, other: object) -> bool:
        """Whether both are the same integers in the same unit."""
        if not isinstance(other, Moments):
            return NotImplemented
        return (
            self.step == other.step
            and np.array_equal(self.gram, other.gram)
            and np.array_equal(self.cross, other.cross)
            and np.array_equal(self.count, other.count)
        )

    def __add__(self, other: "Moments") -> "Moments":
        """Moments of both sets of samples together."""
        self._check(other)
        return Moments(
            self.gram + other.gram, self.cross + other.cross, self.count + other.count, self.step
        )

    def __sub__(self, other: "Moments") -> "Moments":
        """Moments of what is left when the samples of ``other`` are taken out.

        Raises:
            InputError: ``other`` has more samples of a class than there are, or all of them but
                another sum: it was not in these moments.
        """
        self._check(other)
        missing = np.flatnonzero(other.count > self.count)
        if missing.size:
            raise InputError(
                f"{other.count[missing[0]]} samples of class {missing[0]} cannot be taken out of "
                f"{self.count[missing[0]]}: take out only what was added before, and once."
            )
        rest = Moments(
            self.gram - other.gram, self.cross - other.cross, self.count - other.count, self.step
        )
        if rest.cross[rest.count == 0].any() or (rest.samples == 0 and rest.gram.any()):
            raise InputError(
                "What would be left is not zero where no sample would be left, so other samples "
                "were added than are taken out: take out only what was added before."
            )
        return rest

    def _check(self, other: "Moments") -> None:
        if self.cross.shape != other.cross.shape or self.step != other.step:
            raise InputError(
                "Moments add only over the same features and classes: "
                f"{self.cross.shape[::-1]} in steps of {self.step:g} against "
                f"{other.cross.shape[::-1]} in steps of {other.step:g}. "
                "Use one backbone and one list of classes for all clients."
            )

    @property
    def features(self) -> int:
        """Embedding dimension m."""
        return self.cross.shape[1]

    @property
    def samples(self) -> int:
        """Number of samples N."""
        return int(self.count.sum())

    def gram_matrix(self) -> Float[np.ndarray, "m m"]:
        """FᵀF in the features' own units, exact below 2⁵³ steps²."""
        return unpack(self.gram, self.features) * self.step**2

    def cross_matrix(self) -> Float[np.ndarray, "m d"]:
        """B = FᵀY in the features' own units."""
        return self.cross.T * self.step

    def ridge_sums(self) -> tuple[Float[np.ndarray, "m m"], Float[np.ndarray, "m d"], int]:
        """FᵀF, B and N, which are all that a ridge regression needs to know of the samples."""
        return self.gram_matrix(), self.cross_matrix(), self.samples


def total(parts: Iterable[Moments], zero: Moments) -> Moments:
    """Sum of any number of moments, as by ``+`` but without a copy for each.

    ``zero`` are the moments of no samples, in the same shape and step.
    """
    result = zero + zero
    for part in parts:
        result._check(part)
        np.add(result.gram, part.gram, out=result.gram)
        np.add(result.cross, part.cross, out=result.cross)
        np.add(result.count, part.count, out=result.count)
    return result


def moments(
    rows: Int16[np.ndarray, "n m"], labels: Int[np.ndarray, " n"], classes: int, step: float
) -> Moments:
    """Moments of samples sorted by label: class sums are then sums over segments."""
    return Moments(
        exact_gram(rows),
        class_sums(rows, labels, classes),
        np.bincount(labels, minlength=classes).astype(np.int64),
        step,
    )


def exact_gram(rows: Int16[np.ndarray, "n m"]) -> Int64[np.ndarray, " triangle"]:
    """Upper triangle of qᵀq as exact integers: float64 by blocks, int64 beyond 2²³ rows."""
    total = np.zeros(triangle_size(rows.shape[1]), np.int64)
    for start in range(0, len(rows), EXACT_ROWS):
        partial = _float_gram(rows[start : start + EXACT_ROWS])
        total += pack(partial).astype(np.int64)
    return total


def _float_gram(rows: Int16[np.ndarray, "n m"]) -> Float[np.ndarray, "m m"]:
    blocks = (rows[i : i + BLOCK_ROWS] for i in range(0, len(rows), BLOCK_ROWS))
    total = syrk(next(blocks).astype(np.float64))
    for block in blocks:
        total += syrk(block.astype(np.float64))
    return total


def class_sums(
    rows: Int16[np.ndarray, "n m"], labels: Int[np.ndarray, " n"], classes: int
) -> Int64[np.ndarray, "d m"]:
    """Sum of q over each class's samples (qᵀY transposed), from rows sorted by label."""
    sums = np.zeros((classes, rows.shape[1]), np.int64)
    for label, start, stop in _segments(labels):
        sums[label] += rows[start:stop].sum(axis=0, dtype=np.int64)
    return sums


def _segments(labels: Int[np.ndarray, " n"]) -> Iterator[tuple[int, int, int]]:
    """(label, start, stop) of each run of equal labels."""
    bounds = np.flatnonzero(np.diff(labels, prepend=-1, append=-1))
    for start, stop in itertools.pairwise(bounds):
        yield int(labels[start]), int(start), int(stop)
