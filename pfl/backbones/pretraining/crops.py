"""Random crops of different sizes, mirrored half of the time: all the augmentation MAE needs.

A crop has an area drawn uniformly between a smallest share of the image's and all of it, and sides
in a ratio drawn log-uniformly between 3:4 and 4:3, and is resized to the image's size (bilinear),
as in arXiv 2111.06377, appendix A.1. A side that would be longer than the image is cut to it.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

RATIO = 4 / 3  # of the sides of a crop, at most


def draw_crops(images: int, smallest: float, generator: torch.Generator) -> Float[Tensor, "b 2 3"]:
    """For each image the affine map from places in the result to places in the image.

    Places run from −1 to 1 along each side. With ``smallest`` = 1 images are whole.
    """
    area, ratio, *offset, mirror = torch.rand(5, images, generator=generator)
    area = smallest + (1 - smallest) * area
    spread = math.log(RATIO) if smallest < 1 else 0.0
    ratio = ((2 * ratio - 1) * spread).exp()
    width, height = ((area * r).sqrt().clamp(max=1) for r in (ratio, 1 / ratio))
    x, y = ((1 - side) * (2 * o - 1) for side, o in zip((width, height), offset, strict=True))
    sign = torch.where(mirror < 0.5, -1.0, 1.0)
    none = torch.zeros(images)
    maps = [[sign * width, none, x], [none, height, y]]
    return torch.stack([torch.stack(row, dim=1) for row in maps], dim=1)


def crop(
    images: Float[Tensor, "b c h w"], maps: Float[Tensor, "b 2 3"]
) -> Float[Tensor, "b c h w"]:
    """Each image as seen through its map."""
    grid = F.affine_grid(maps.to(images.device), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)
