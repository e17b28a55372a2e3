"""One client's model as one network: normalize, backbone, fixed point, head.

The graph rounds features to multiples of the step as the pipeline does, so that it gives the
pipeline's scores, not scores of features that no head was made for. Resizing and cropping are left
to the caller: the graph takes the pixels after them.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from pfl.cli.deployment.model import Model
from pfl.data.features.fixed_point import LIMIT


class Deployed(nn.Module):
    """Scores of resized pixels, float32: clip(round(f / step)) · (step · W) + b + γ log p(c)/π_c.

    The head is multiplied by the step, a power of two, beforehand, which is exact.
    """

    scale: Tensor
    shift: Tensor
    head: Tensor
    offset: Tensor

    def __init__(self, model: Model) -> None:
        super().__init__()
        transform = model.backbone.transform
        mean, std = (
            torch.tensor(values, dtype=torch.float32).view(3, 1, 1)
            for values in (transform.mean, transform.std)
        )
        self.backbone = model.backbone.module
        self.inverse = 1.0 / model.step
        self.register_buffer("scale", 1 / (255 * std))
        self.register_buffer("shift", mean / std)
        head = (model.head.weight * model.step).astype(np.float32)
        self.register_buffer("head", torch.from_numpy(head))
        self.register_buffer("offset", torch.from_numpy(model.head.offset.astype(np.float32)))

    def forward(self, pixels: Tensor) -> Tensor:
        """(b, 3, size, size) pixels 0 … 255, uint8 → (b, d) scores."""
        normalized = pixels.float() * self.scale - self.shift
        features = self.backbone(normalized)
        rows = torch.round(features * self.inverse).clamp(-LIMIT, LIMIT)
        return rows @ self.head + self.offset


@dataclass(frozen=True)
class Agreement:
    """How an exported model compares with the pipeline on some real images.

    The largest ``difference`` of a score has a limit, see :func:`allowed_difference`; None where
    the pipeline computed in bf16 and the exported model, in float32, is the more precise.
    """

    images: int
    same_class: int
    difference: float
    allowed: float | None


def compare(
    model: Model, pixels: UInt8[Tensor, "n 3 size size"], exported: Float[np.ndarray, "n d"]
) -> Agreement:
    """Compare scores that an exported model found with those of the pipeline."""
    batches = torch.split(pixels, model.batch)
    expected = np.concatenate([model.scores(batch) for batch in batches])
    return Agreement(
        images=len(exported),
        same_class=int((exported.argmax(1) == expected.argmax(1)).sum()),
        difference=float(np.abs(exported - expected).max(initial=0.0)),
        allowed=None if model.precision == "bf16" else allowed_difference(model),
    )


def allowed_difference(model: Model) -> float:
    """Largest difference of a score when every feature is rounded to a neighboring multiple.

    |Δ score_c| ≤ step · Σ_j |W_jc|. Another order of additions in the backbone moves a feature by
    far less than a step, but may move it over the middle between two multiples. What is added to
    x W is float32 in the graph, and so is the sum, which may cost 2⁻²² of it.
    """
    features = model.step * np.abs(model.head.weight).sum(axis=0).max()
    return float(features + np.abs(model.head.offset).max() * 2.0**-22)
