"""A head with a bias: class scores x W + b."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class AffineHead:
    """Class scores x W + b of features x.

    Heads are vectors: they add and are scaled as their scores are.

    Attributes:
        weight: W.
        bias: b.
    """

    weight: Float[np.ndarray, "m d"]
    bias: Float[np.ndarray, " d"]

    def scores(self, features: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n d"]:
        """One row of class scores a sample."""
        return features @ self.weight + self.bias


def linear(weight: Float[np.ndarray, "m d"]) -> AffineHead:
    """The head without a bias, as those of ridge regression on one-hot labels are."""
    return AffineHead(weight, np.zeros(weight.shape[1]))


def weighted_sum(weights: Sequence[float], heads: Sequence[AffineHead]) -> AffineHead:
    """The head whose scores are Σ_j w_j times those of head j; one or more heads.

    Heads of weight 0 are passed over, so that they change no bit.
    """
    weight, bias = np.zeros_like(heads[0].weight), np.zeros_like(heads[0].bias)
    for factor, head in zip(weights, heads, strict=True):
        if factor:
            weight += factor * head.weight
            bias += factor * head.bias
    return AffineHead(weight, bias)
