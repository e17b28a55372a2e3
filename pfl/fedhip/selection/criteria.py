"""How good a head is, from its leave-one-out residuals: three criteria, all to be made small."""

from collections.abc import Callable
from enum import StrEnum

import numpy as np
from jaxtyping import Float, Int

Residuals = Float[np.ndarray, "n b d"]  # of n samples, b heads and d classes
Labels = Int[np.ndarray, " n"]
SAFE = 0.25  # margin, in units of a label's 1, beyond which nothing is gained


class Criterion(StrEnum):
    """What leave-one-out makes small.

    ``margin`` is the mean of max(0, ¼ − margin), where a sample's margin is its class's score above
    the best other score: a smooth stand-in for errors that sees no gain beyond a safe margin.
    ``accuracy`` counts errors, and compares squares among equal counts. ``squared-error`` is what
    the heads themselves minimize. docs/selection.md compares them.
    """

    MARGIN = "margin"
    ACCURACY = "accuracy"
    SQUARED_ERROR = "squared-error"


def loss(criterion: Criterion, residuals: Residuals, labels: Labels) -> Float[np.ndarray, " b"]:
    """Mean loss over n ≥ 1 samples of b heads for d ≥ 2 classes, from one-hot labels less scores.

    Infinite for a head with a residual that is not finite.
    """
    with np.errstate(invalid="ignore"):
        means = _LOSSES[criterion](residuals, labels)
    return np.where(np.isfinite(residuals).all(axis=(0, 2)), means, np.inf)


def margins(residuals: Residuals, labels: Labels) -> Float[np.ndarray, "n b"]:
    """Score of each sample's own class minus the largest score of another class."""
    rows = np.arange(len(labels))
    others = -residuals
    others[rows, :, labels] = -np.inf
    return 1.0 - residuals[rows, :, labels] - others.max(axis=2)


def _margin(residuals: Residuals, labels: Labels) -> Float[np.ndarray, " b"]:
    return np.maximum(0.0, SAFE - margins(residuals, labels)).mean(axis=0)


def _accuracy(residuals: Residuals, labels: Labels) -> Float[np.ndarray, " b"]:
    """(errors + s) / n with 0 ≤ s < 1 growing with the mean squared error."""
    square = _squared_error(residuals, labels)
    wrong = np.count_nonzero(margins(residuals, labels) <= 0, axis=0)
    return (wrong + square / (1.0 + square)) / len(labels)


def _squared_error(residuals: Residuals, labels: Labels) -> Float[np.ndarray, " b"]:
    return np.einsum("nbd,nbd->b", residuals, residuals) / len(labels)


_LOSSES: dict[Criterion, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    Criterion.MARGIN: _margin,
    Criterion.ACCURACY: _accuracy,
    Criterion.SQUARED_ERROR: _squared_error,
}
