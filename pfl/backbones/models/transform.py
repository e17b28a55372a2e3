"""From images of any size to the pixels that a backbone wants: resize, center crop, normalize.

The numbers come from the model's own configuration. Training and test images go through the same
transform, and nothing in it is random, so that features can be stored once.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as F

from pfl.errors import InputError

LARGEST_SIZE = 4096
OBLONG = 16  # times its short side, beyond which an image's ends are cut off before it is resized


@dataclass(frozen=True)
class Transform:
    """Resize the short side to ``resize`` pixels, cut out the central square, normalize.

    Attributes:
        size: side of the square that the backbone sees, pixels.
        resize: length of the short side before the cut, pixels.
        squash: resize both sides to ``resize`` instead, changing the aspect ratio.
        interpolation: ``bicubic`` or ``bilinear``, always antialiased.
        mean: per channel, of pixels scaled to 0 … 1.
        std: per channel, of the same.
    """

    size: int
    resize: int
    squash: bool
    interpolation: str
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __str__(self) -> str:
        """One line for the provenance of features."""
        side = "both sides" if self.squash else "short side"
        return (
            f"{side} to {self.resize} px ({self.interpolation}, antialias), center crop "
            f"{self.size} px, mean {self.mean}, std {self.std}"
        )

    def pixels(
        self, images: UInt8[np.ndarray, "b h w 3"] | Sequence[UInt8[np.ndarray, "_ _ 3"]]
    ) -> UInt8[Tensor, "b 3 size size"]:
        """Resize and crop; images of one size at once, a list of several sizes one by one."""
        if isinstance(images, np.ndarray):
            return self._resized(torch.from_numpy(images))
        return torch.cat([self._resized(torch.from_numpy(image[None])) for image in images])

    def _resized(self, images: UInt8[Tensor, "b h w 3"]) -> UInt8[Tensor, "b 3 size size"]:
        if not self.squash:
            images = _shortened(images)
        # The permuted view is channels-last already, torchvision's fast path and the model's.
        resized = F.resize(
            images.permute(0, 3, 1, 2),
            [self.resize, self.resize] if self.squash else [self.resize],
            InterpolationMode(self.interpolation),
            antialias=True,
        )
        cropped: Tensor = F.center_crop(resized, [self.size, self.size])
        return cropped.contiguous(memory_format=torch.channels_last)

    def normalize(self, pixels: UInt8[Tensor, "b 3 h w"]) -> Float[Tensor, "b 3 h w"]:
        """(pixels / 255 - mean) / std, on the device that holds the pixels."""
        mean, std = (
            torch.tensor(v, dtype=torch.float32, device=pixels.device).view(3, 1, 1)
            for v in (self.mean, self.std)
        )
        return pixels.float().mul_(1 / (255 * std)).sub_(mean / std)


def _shortened(images: UInt8[Tensor, "b h w 3"]) -> UInt8[Tensor, "b _ _ 3"]:
    """Cut the ends off very oblong images: the central square does not show them.

    Resized as it is, an image of one pixel by millions would take terabytes.
    """
    height, width = images.shape[1:3]
    longest = OBLONG * min(height, width)
    for axis, length in ((1, height), (2, width)):
        if length > longest:
            images = images.narrow(axis, (length - longest) // 2, longest)
    return images


def squares(
    size: int, mean: Sequence[float], std: Sequence[float], image_size: int | None
) -> Transform:
    """The short side at ``size``, or ``image_size`` if given, and the central square."""
    config = {"input_size": (3, size, size), "crop_pct": 1.0, "crop_mode": "center",
              "interpolation": "bilinear", "mean": mean, "std": std}  # fmt: skip
    return configured(config, image_size)


def configured(config: Mapping[str, Any], image_size: int | None) -> Transform:
    """The transform of a model's configuration as timm resolves it, at another size if given.

    The short side becomes floor(size / crop_pct), as in timm's own evaluation.

    Raises:
        InputError: the size is out of range, or the model wants oblong images.
    """
    _, height, width = config["input_size"]
    if height != width and image_size is None:
        raise InputError(
            f"This backbone wants images of {height} × {width} pixels, and only squares are cut: "
            "set extract.image-size to a number of pixels, or choose another backbone."
        )
    size = image_size or int(height)
    if not 1 <= size <= LARGEST_SIZE:
        raise InputError(
            f"The image size is {size} pixels: set extract.image-size to 1 … {LARGEST_SIZE}."
        )
    return Transform(
        size=size,
        resize=math.floor(size / config["crop_pct"]),
        squash=config["crop_mode"] == "squash",
        interpolation=config["interpolation"],
        mean=tuple(map(float, config["mean"])),
        std=tuple(map(float, config["std"])),
    )
