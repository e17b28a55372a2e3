"""Public images in memory: those to train on, and those kept for the linear probe."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int

from pfl.artifacts.hashing import recorded_sha256
from pfl.artifacts.provenance import check_origin
from pfl.backbones.pretraining.recipe import ImageSet
from pfl.data.images.images import open_images
from pfl.data.samples.index import read_index
from pfl.data.tensors.pixels import PixelView, load_pixels, normalization, pixel_sums


@dataclass(frozen=True)
class PublicData:
    """Images on the device that trains.

    Attributes:
        train: to train on.
        probe: kept out of training; perhaps none.
        labels: of ``probe``.
        classes: how many there are.
        sha256: of the artifact that all images are from.
    """

    train: ImageSet
    probe: ImageSet
    labels: Int[np.ndarray, " n"]
    classes: int
    sha256: str

    @property
    def probed(self) -> bool:
        """Whether there is anything to probe with."""
        return len(np.unique(self.labels)) > 1

    @property
    def shown(self) -> ImageSet:
        """Images to look at: of those kept out, if there are any."""
        return self.probe if len(self.labels) else self.train


def load_public_data(images: Path, index: Path, size: int, device: torch.device) -> PublicData:
    """All images at one size, normalized by the statistics of those to train on.

    Raises:
        InputError: a file is damaged, or the two do not belong together.
    """
    listed, sha256 = read_index(index), recorded_sha256(images, "images")
    check_origin("index of public images", listed.images_sha256, "public images", sha256)
    with open_images(images) as opened:
        pixels = load_pixels(opened, size)
    train = int(listed.train.sum())  # they come first
    mean, std = normalization([pixel_sums(pixels[:train])])
    view = PixelView(mean, std, augment=False).to(device)
    pixels = pixels.to(device)
    return PublicData(
        train=ImageSet(pixels[:train], view),
        probe=ImageSet(pixels[train:], view),
        labels=listed.label[train:].astype(np.int64),
        classes=len(listed.classes),
        sha256=sha256,
    )
