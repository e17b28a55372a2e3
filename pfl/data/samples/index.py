"""The sample index: image, label, split and group of every sample.

A sample is one label of one image, given in one group. Most data have a sample for each image, in
the order of ``images.h5``; where several users label the same images, samples share them. Sample
numbers are fixed by ``prepare``, and clients are lists of them; images and their features are
stored once, by image number, and :meth:`Index.images_of` leads from the one to the other. Training
samples come first, then test samples.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int, Integer

from pfl.artifacts.hashing import recorded_sha256
from pfl.artifacts.hdf5 import create, put, put_text, read, read_text, reading
from pfl.artifacts.provenance import origin

TRAIN, TEST = 0, 1


@dataclass(frozen=True)
class Index:
    """What is known of each of ``n`` samples.

    Attributes:
        label: class number, 0 … d-1.
        split: ``TRAIN`` or ``TEST``.
        group: number of the natural group (domain, site, person) a sample comes from.
        classes: the d class names.
        groups: the group names; one group when the data have none.
        image: number of each sample's image, each of 0 … images-1 at least once; None where sample
            i is of image i.
        images_sha256: of the images that it lists; empty where it is not known.
        sha256: of its own file; empty where there is none yet.
    """

    label: Int[np.ndarray, " n"]
    split: Integer[np.ndarray, " n"]
    group: Int[np.ndarray, " n"]
    classes: tuple[str, ...]
    groups: tuple[str, ...]
    image: Int[np.ndarray, " n"] | None = None
    images_sha256: str = ""
    sha256: str = ""

    @property
    def images(self) -> int:
        """Count of images."""
        if self.image is None:
            return len(self.label)
        return int(self.image.max(initial=-1)) + 1

    def images_of(self, samples: Int[np.ndarray, " b"]) -> Int[np.ndarray, " b"]:
        """Numbers of these samples' images: the rows of ``images.h5`` and ``features.h5``."""
        return samples if self.image is None else self.image[samples]

    @property
    def train(self) -> Bool[np.ndarray, " n"]:
        """Mask of the training samples."""
        return np.equal(self.split, TRAIN)

    @property
    def test(self) -> Bool[np.ndarray, " n"]:
        """Mask of the test samples."""
        return np.equal(self.split, TEST)


def write_index(path: Path, index: Index, attributes: dict[str, str | int | float]) -> None:
    """Store an index as the artifact ``index.h5``, with the SHA-256 of its images."""
    with create(path, "index", {**attributes, "images-sha256": index.images_sha256}) as file:
        put(file, "label", index.label.astype(np.int32))
        put(file, "split", index.split.astype(np.uint8))
        put(file, "group", index.group.astype(np.int32))
        if index.image is not None:
            put(file, "image", index.image.astype(np.int64))
        put_text(file, "class-name", index.classes)
        put_text(file, "group-name", index.groups)


def read_index(path: Path) -> Index:
    """Load ``index.h5``."""
    with reading(path, "index") as file:
        return Index(
            label=read(file, "label"),
            split=read(file, "split"),
            group=read(file, "group"),
            classes=read_text(file, "class-name"),
            groups=read_text(file, "group-name"),
            image=read(file, "image") if "image" in file else None,
            images_sha256=origin(file, "images"),
            sha256=recorded_sha256(path, "index"),
        )
