"""Images in memory: bytes, channels last, normalized as they are used.

A view of channels-last bytes is what PyTorch's fast convolutions want, and a quarter of the memory
of floats (two-core CPU, LeNet-5: 13,900 images/s against 11,700 through a DataLoader).
"""

import functools
import operator
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.nn import functional as F

from pfl.data.images.images import Images
from pfl.errors import InputError

PADDING = 4  # black pixels around an image before a random crop, as usual for CIFAR
ARRAYS, FILES = 256, 16  # images read at once: bounds what is held in memory at full size


@dataclass(frozen=True)
class PixelView:
    """How images become a network's input.

    Attributes:
        mean: per channel, of pixels scaled to 0 … 1.
        std: per channel, of the same.
        augment: whether training batches are cropped and flipped at random.
    """

    mean: Float[Tensor, " c"]
    std: Float[Tensor, " c"]
    augment: bool

    def __call__(self, stored: UInt8[Tensor, "b h w c"]) -> Float[Tensor, "b c h w"]:
        """(pixels / 255 - mean) / std, channels last in memory."""
        # Whole rows at once: along three channels alone the loops would be too short to be fast.
        width = stored.shape[2]
        scale, shift = (v.repeat(width) for v in (1 / (255 * self.std), self.mean / self.std))
        rows = stored.flatten(2).float().mul_(scale).sub_(shift)
        return rows.view(stored.shape).permute(0, 3, 1, 2)

    def augmented(
        self, stored: UInt8[Tensor, "b h w c"], generator: torch.Generator
    ) -> UInt8[Tensor, "b h w c"]:
        """Cropped and flipped, if ``augment``."""
        return crop_and_flip(stored, generator) if self.augment else stored

    def to(self, device: torch.device) -> "PixelView":
        """The same on another device."""
        return replace(self, mean=self.mean.to(device), std=self.std.to(device))


def pixel_view(parts: Iterable[UInt8[Tensor, "_ h w c"]], augment: bool) -> PixelView:
    """Normalized by the statistics of ``parts``, see :func:`normalization`."""
    return PixelView(*normalization(map(pixel_sums, parts)), augment)


def crop_and_flip(
    pixels: UInt8[Tensor, "b h w c"], generator: torch.Generator
) -> UInt8[Tensor, "b h w c"]:
    """A random crop after padding with ``PADDING`` black pixels, mirrored with probability ½."""
    count, height, width, channels = pixels.shape
    drawn = torch.randint(2 * PADDING + 1, (2, count, 1), generator=generator)
    flipped = torch.rand(count, 1, generator=generator) < 0.5
    padded = F.pad(pixels, (0, 0, PADDING, PADDING, PADDING, PADDING))
    # A mirrored crop is a crop of the mirrored image, so whole rows of bytes are copied, once.
    image = torch.arange(count)[:, None] + count * flipped
    row = drawn[0] + torch.arange(height)
    left = torch.where(flipped, 2 * PADDING - drawn[1], drawn[1])
    windows = torch.cat([padded, padded.flip(2)]).flatten(2).unfold(2, width * channels, channels)
    device = pixels.device
    return windows[image.to(device), row.to(device), left.to(device)].view(pixels.shape)


def load_pixels(images: Images, size: int | None) -> UInt8[Tensor, "n h w c"]:
    """All images, at one size; c = 1 if every one of them is grey, else 3.

    With a ``size``, the short side is resized to it (bilinear, antialiased) and the central square
    cut out. Without, images stay as they are, and must be squares of one size.

    Raises:
        InputError: the artifact is damaged, or no size was given and images are no such squares.
    """
    rows = FILES if images.encoded else ARRAYS
    blocks: list[Tensor] = []
    for start in range(0, len(images), rows):
        block = images.rgb(start, min(start + rows, len(images)))
        parts = [block] if isinstance(block, np.ndarray) else [image[None] for image in block]
        blocks += [_sized(torch.from_numpy(part), size) for part in parts]
    shapes = {block.shape[1:3] for block in blocks}
    if len(shapes) > 1 or len(set(min(shapes))) > 1:
        height, width = min(shapes)
        raise InputError(
            f"A network is built for squares of one size, but there are images of {len(shapes)} "
            f"size(s), {height} × {width} pixels for one: set rounds.image-size to a number."
        )
    pixels = torch.cat(blocks)
    grey = bool((pixels == pixels[..., :1]).all())
    return pixels[..., :1].contiguous() if grey else pixels


def _sized(pixels: UInt8[Tensor, "b h w c"], size: int | None) -> UInt8[Tensor, "b h2 w2 c"]:
    """Resize the short side and cut out the central square."""
    height, width = pixels.shape[1:3]
    if size is None or (height == size and width == size):
        return pixels
    scale = size / min(height, width)
    shape = [max(size, round(height * scale)), max(size, round(width * scale))]
    resized = F.interpolate(
        pixels.permute(0, 3, 1, 2), shape, mode="bilinear", antialias=True, align_corners=False
    )
    top, left = ((side - size) // 2 for side in shape)
    cut = resized[:, :, top : top + size, left : left + size]
    return cut.permute(0, 2, 3, 1).contiguous()


@dataclass(frozen=True)
class PixelSums:
    """Sums over pixels, channel by channel; a commutative monoid under ``+``, in exact integers.

    Attributes:
        count: of pixels.
        first: Σ x.
        second: Σ x².
    """

    count: int
    first: Int[Tensor, " c"]
    second: Int[Tensor, " c"]

    def __add__(self, other: "PixelSums") -> "PixelSums":
        """The sums over both sets of pixels."""
        return PixelSums(
            self.count + other.count, self.first + other.first, self.second + other.second
        )


def pixel_sums(pixels: UInt8[Tensor, "n h w c"]) -> PixelSums:
    """What a client can tell of its images for :func:`normalization` without showing one."""
    axes = (0, 1, 2)
    return PixelSums(pixels[..., 0].numel(), pixels.sum(axes), pixels.long().square_().sum(axes))


def normalization(parts: Iterable[PixelSums]) -> tuple[Float[Tensor, " c"], Float[Tensor, " c"]]:
    """Mean and standard deviation of each channel, of pixels scaled to 0 … 1.

    ``parts`` are the sums of at least one client. A channel that hardly varies gets a standard
    deviation of one gray level, so that nothing is divided by zero.
    """
    total = functools.reduce(operator.add, parts)
    mean = total.first.double() / total.count
    std = (total.second.double() / total.count - mean**2).clamp_min(1.0).sqrt()
    return (mean / 255).float(), (std / 255).float()
