"""Cached features as training data: 16-bit integers in memory, standardized as they are used.

A quarter of the memory of float64 and half of float32 (50,000 × 1,280: 122 MiB), and a batch
becomes floats in less time than a linear head needs for it (`benchmarks/heads.py`).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int16
from torch import Tensor

from pfl.data.features.features import Features

BLOCK_ROWS = 4096  # read at once


@dataclass(frozen=True)
class FeatureView:
    """How features become a network's input: x = q · scale − shift, by column.

    Attributes:
        scale: 1/σ, in units of one fixed-point step.
        shift: μ/σ.
    """

    scale: Float[Tensor, " m"]
    shift: Float[Tensor, " m"]

    def __call__(self, stored: Int16[Tensor, "b m"]) -> Float[Tensor, "b m"]:
        """(q − μ) / σ, which is (f − mean f) / std f: the step cancels."""
        return stored.float().mul_(self.scale).sub_(self.shift)

    def augmented(
        self, stored: Int16[Tensor, "b m"], generator: torch.Generator
    ) -> Int16[Tensor, "b m"]:
        """As they are: a feature cannot be cropped."""
        del generator
        return stored

    def to(self, device: torch.device) -> "FeatureView":
        """The same on another device."""
        return FeatureView(self.scale.to(device), self.shift.to(device))


def feature_view(parts: Iterable[Int16[Tensor, "_ m"]]) -> FeatureView:
    """Standardized by mean and standard deviation of each column over all ``parts``.

    From each part's integer sums, Σq and Σq², which follow from what a client sends in FedHiP: the
    class sums and the Gram matrix's diagonal. A column that hardly varies gets a deviation of one
    step, so that nothing is divided by zero.
    """
    totals = [(len(part), part.sum(0), part.long().square_().sum(0)) for part in parts]
    count = sum(number for number, _, _ in totals)
    mean = torch.stack([first for _, first, _ in totals]).sum(0).double() / count
    square = torch.stack([second for _, _, second in totals]).sum(0).double() / count
    std = (square - mean**2).clamp_min(1.0).sqrt()
    return FeatureView((1 / std).float(), (mean / std).float())


def load_features(features: Features) -> Int16[Tensor, "n m"]:
    """The features of all images, in fixed point.

    Raises:
        InputError: the artifact is damaged.
    """
    rows = np.empty((len(features), features.m), np.int16)
    for start in range(0, len(rows), BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, len(rows))
        rows[start:stop] = features.rows(start, stop)
    return torch.from_numpy(rows)
