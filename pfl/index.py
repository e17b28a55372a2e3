"""The sample index: label, split and group of every image, in the order of ``images.h5``.

Sample numbers are fixed by ``prepare`` and used everywhere: features are stored by them, clients
are lists of them. Training samples come first, then test samples.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int, Integer

from pfl.artifacts import create, origin, put, put_text, read, read_text, reading, recorded_sha256

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
        images_sha256: of the images that it lists; empty where it is not known.
        sha256: of its own file; empty where there is none yet.
    """

    label: Int[np.ndarray, " n"]
    split: Integer[np.ndarray, " n"]
    group: Int[np.ndarray, " n"]
    classes: tuple[str, ...]
    groups: tuple[str, ...]
    images_sha256: str = ""
    sha256: str = ""

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
            images_sha256=origin(file, "images"),
            sha256=recorded_sha256(path, "index"),
        )
