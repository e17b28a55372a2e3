"""Features and parameters at their extremes, and all that a client and the server make of them."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from hypothesis import strategies as st

from pfl.fedhip.moments import Moments, moments
from tests.exact import exact, identity

CLASSES = 3
COLUMNS = ("drawn", "constant", "duplicate", "near", "zero", "huge", "alone")


@dataclass(frozen=True)
class Problem:
    """A client's samples, the first of all; with nobody else's, K = 1.

    Attributes:
        rows: q of all samples.
        labels: their classes.
        own: how many are the client's.
        step: of the fixed point.
        beta: ridge of the global, the local and FedHiP's head.
        alpha: of FedHiP's head.
        rho: of the anchored head.
    """

    rows: np.ndarray
    labels: np.ndarray
    own: int
    step: float
    beta: float
    alpha: float
    rho: float

    def mine(self):
        """The client's rows and labels, sorted by label."""
        order = np.argsort(self.labels[: self.own], kind="stable")
        return self.rows[order], self.labels[order]

    @property
    def features(self):
        return self.mine()[0] * self.step

    @cached_property
    def sent(self):
        return moments(*self.mine(), CLASSES, self.step)

    @cached_property
    def others(self):
        rows, labels = self.rows[self.own :], self.labels[self.own :]
        order = np.argsort(labels, kind="stable")
        if not len(labels):
            return Moments.zero(rows.shape[1], CLASSES, self.step)
        return moments(rows[order], labels[order], CLASSES, self.step)

    @cached_property
    def total(self):
        return self.sent + self.others


@dataclass(frozen=True)
class Sums:
    """FᵀF and FᵀY in fractions, from integers alone."""

    gram: np.ndarray
    cross: np.ndarray

    @classmethod
    def of(cls, rows, labels, step):
        features, targets = exact(rows) * Fraction(step), exact(np.eye(CLASSES)[labels])
        nothing = exact(np.zeros((rows.shape[1], rows.shape[1] + CLASSES)))
        both = features.T.dot(np.hstack([features, targets])) if len(rows) else nothing
        return cls(both[:, : rows.shape[1]], both[:, rows.shape[1] :])

    def ridged(self, ridge):
        return self.gram + identity(len(self.gram), ridge)

    def __add__(self, other):
        return Sums(self.gram + other.gram, self.cross + other.cross)

    def __sub__(self, other):
        return Sums(self.gram - other.gram, self.cross - other.cross)

    def __rmul__(self, weight):
        return Sums(Fraction(weight) * self.gram, Fraction(weight) * self.cross)


def columns(rows, kinds, rng):
    """Make each column one of ``COLUMNS``, in place."""
    limit = max(1, int(np.abs(rows).max(initial=0)))
    for column, kind in zip(rows.T, kinds, strict=True):
        match kind:
            case "constant":
                column[:] = limit
            case "zero":
                column[:] = 0
            case "huge":
                column[:] = rng.integers(-32767, 32768, len(column))
            case "duplicate" | "near":
                column[:] = rows[:, 0]
                if kind == "near":
                    column[:1] = np.clip(rows[:1, 0] + 1, -32767, 32767)
            case "alone":
                column[1:] = 0


def powers(low, high):
    """Numbers between powers of ten, and the powers at both ends."""
    return st.one_of(st.sampled_from([low, high]), st.floats(low, high)).map(lambda x: 10.0**x)


@st.composite
def problems(draw, max_width=5, max_samples=10, least=0):
    """Problems of every kind."""
    m = draw(st.integers(1, max_width))
    n = draw(st.integers(least, max_samples))
    own = min(n, draw(st.sampled_from([0, 1, m, m + 1, n])))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    limit = draw(st.sampled_from([3, 300, 32767]))
    rows = rng.integers(-limit, limit + 1, (n, m))
    columns(rows, draw(st.lists(st.sampled_from(COLUMNS), min_size=m, max_size=m)), rng)
    if draw(st.booleans()):
        rows[1:2] = rows[:1]  # Two equal samples, perhaps of different classes.
    return Problem(
        rows.astype(np.int16),
        rng.integers(0, CLASSES, n),
        max(own, min(least, 1)),
        2.0 ** draw(st.sampled_from([-40, -20, -8, 0, 10, 40])),
        beta=draw(powers(-12, 12)),
        alpha=draw(st.one_of(st.just(0.0), powers(-9, 9))),
        rho=draw(powers(-12, 9)),
    )
