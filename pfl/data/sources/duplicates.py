"""Images that two collections share, by a hash of their pixels.

A backbone that was trained on an image of a client's test set would be measured too kindly, and one
that was trained on a client's training image is none of public data. Found are images that are the
same in every pixel, of whatever file format; not the same picture at another size or cut.
"""

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Bool, UInt8

from pfl.data.images.decoding import decode
from pfl.data.images.images import ImageFiles, Images, PixelArray

BLOCK = 64  # images read at once: bounds what is held in memory


def pixel_hash(rgb: UInt8[np.ndarray, "h w 3"]) -> bytes:
    """SHA-256 of an image's size and pixels."""
    digest = hashlib.sha256(repr(rgb.shape).encode())
    digest.update(rgb.tobytes())
    return digest.digest()


def hashes_of_source(source: PixelArray | ImageFiles) -> Iterator[bytes]:
    """The hash of each image of a data set, in its order; grey ones count as RGB.

    Raises:
        InputError: a file is damaged or no image.
    """
    if isinstance(source, PixelArray):
        for image in source.pixels:
            yield pixel_hash(np.broadcast_to(image, (*image.shape[:2], 3)))
        return
    for name in source.names:
        path = source.root / name
        yield pixel_hash(decode(path.read_bytes(), str(path)))


def hashes_of_artifact(images: Images) -> Iterator[bytes]:
    """The hash of each image of an ``images.h5``, as the data set has it."""
    for start in range(0, len(images), BLOCK):
        for image in images.stored(start, min(start + BLOCK, len(images))):
            yield pixel_hash(image)


def absent(hashes: Iterable[bytes], others: Iterable[bytes]) -> Bool[np.ndarray, " n"]:
    """Which of ``hashes`` are not among ``others``."""
    known = set(others)
    return np.array([digest not in known for digest in hashes], dtype=bool)
