"""What a masked autoencoder is trained to do: predict the hidden patches, each normalized.

With x the d values of a patch, its target is (x − x̄) / √(s² + ε) for their mean x̄ and sample
variance s² [He et al., arXiv 2111.06377, section 3], so that contrast within a patch counts and
its brightness does not. The loss is the mean squared error over the hidden patches alone.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

EPSILON = 1e-6  # ε, of variances of pixels in units of the data's standard deviation


def targets(patches: Float[Tensor, "b l d"]) -> Float[Tensor, "b l d"]:
    """Each patch at mean 0 and variance 1; a patch of one color is all 0."""
    mean, deviation = _statistics(patches)
    return (patches - mean) / deviation


def restored(
    predicted: Float[Tensor, "b l d"], patches: Float[Tensor, "b l d"]
) -> Float[Tensor, "b l d"]:
    """Pixels of predicted targets, by the mean and deviation of the true patches: to look at."""
    mean, deviation = _statistics(patches)
    return predicted * deviation + mean


def masked_loss(
    predicted: Float[Tensor, "b l d"], patches: Float[Tensor, "b l d"], hidden: Bool[Tensor, "b l"]
) -> Float[Tensor, ""]:
    """Mean squared error of the predictions of hidden patches; of visible ones, nothing counts."""
    errors = (predicted.float() - targets(patches)).square().mean(dim=2)
    return (errors * hidden).sum() / hidden.sum()


def _statistics(
    patches: Float[Tensor, "b l d"],
) -> tuple[Float[Tensor, "b l 1"], Float[Tensor, "b l 1"]]:
    variance, mean = torch.var_mean(patches, dim=2, keepdim=True)
    return mean, (variance + EPSILON).sqrt()
