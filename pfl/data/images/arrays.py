"""Arrays as images: what they must be, and how to make one so that is not.

A remedy that is followed is accepted from then on, so that a wrong one would scramble pictures in
silence. Axes are therefore moved and never reshaped, and are named only where the lengths tell
which is which; else the remedy says what to look at.
"""

from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from pfl.errors import InputError

CHANNELS = (1, 3)
BYTE, WORD = 255, 65535


def as_pixels(path: Path, name: str, x: np.ndarray, labels: int) -> UInt8[np.ndarray, "n h w c"]:
    """Check the images ``name`` of a file, and give them a channel axis; ``labels`` is n.

    Raises:
        InputError: they are of another type or shape, and how to convert them.
    """
    remedy = _of_type(name, x) or _of_shape(name, x, labels)
    if remedy:
        raise InputError(
            f"{path}: {name} is {x.dtype} of shape {x.shape}, but must be uint8 of shape "
            f"(n, height, width) or (n, height, width, 1 or 3): {remedy}."
        )
    return x if x.ndim == 4 else x[..., None]


def _of_type(name: str, x: np.ndarray) -> str:
    """How to make images of numbers of the right type; empty where they are."""
    if x.dtype == np.uint8:
        return ""
    if x.dtype == bool:
        return f"255 * {name}.astype('uint8') makes true white and false black"
    if x.dtype.kind not in "iuf":
        return "give the levels of the pixels, 0 … 255"
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        return "some values are NaN or infinite, which no pixel is"
    low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 0.0)
    if low < 0 or high > WORD or (x.dtype.kind == "f" and high > BYTE):
        return (
            f"its values reach from {low:g} to {high:g}; scale what is black in these images to 0 "
            f"and what is white to 255, and then take {name}.round().astype('uint8')"
        )
    if x.dtype.kind == "f" and high <= 1:
        return f"(255 * {name}).round().astype('uint8') converts values in 0 … 1"
    if high <= 1:
        return f"255 * {name}.astype('uint8') makes 1 white and 0 black"
    if high <= BYTE:
        rounded = ".round()" if x.dtype.kind == "f" else ""
        return f"{name}{rounded}.astype('uint8') converts values in 0 … 255"
    return (
        f"({name} / 257).round().astype('uint8') converts values in 0 … 65535; where white is "
        f"less, as in images of 12 bits (the highest value is {high:g}), multiply by 255 / white"
    )


def _of_shape(name: str, x: np.ndarray, labels: int) -> str:
    """How to put axes where they belong; empty where they are."""
    if x.ndim < 3:
        return (
            f"unfold the pixels as they were folded: {name}.reshape(-1, height, width, channels), "
            f"or {name}.reshape(-1, channels, height, width).transpose(0, 2, 3, 1) where each "
            "channel comes as a whole, as in CIFAR's files; look at an image to tell"
        )
    if x.ndim > 4:
        return (
            "an image has height, width and channels: take one frame or slice of each, such as "
            f"{name}[:, 0]"
        )
    if 0 in x.shape[1:]:
        return "its images have no pixels"
    if x.ndim == 3 or x.shape[3] in CHANNELS:
        return ""
    if labels not in x.shape:
        return f"none of its axes is as long as the {labels} labels: give each image one"
    images, channels = _axes(x, labels)
    if (images, channels) == (0, 3):
        return _chosen(name, x.shape[3])
    if images == 0:
        return f"np.moveaxis({name}, {channels}, -1) puts the channels last"
    if channels == max({0, 1, 2, 3} - {images}):
        return f"np.moveaxis({name}, {images}, 0) puts the images first"
    return (
        f"np.moveaxis({name}, ({images}, {channels}), (0, -1)) puts the images first and the "
        "channels last"
    )


def _axes(x: np.ndarray, labels: int) -> tuple[int, int]:
    """Which axis numbers the images, and which the channels, where the last has not 1 or 3 numbers.

    Images are where the labels' count is. Where that is in several places, they are last if the
    channels are third, as MATLAB orders them, and else first. Channels are the only other axis
    with 1 or 3 numbers, or much the shortest, or the last.
    """
    matches = [axis for axis in range(4) if x.shape[axis] == labels]
    few = [axis for axis in range(4) if x.shape[axis] in CHANNELS]
    images = matches[-1] if len(matches) == 1 or few == [2] else matches[0]
    others = [axis for axis in range(4) if axis != images]
    few = [axis for axis in few if axis != images]
    if len(few) == 1:
        return images, few[0]
    shortest, second = sorted(others, key=lambda axis: x.shape[axis])[:2]
    return images, shortest if 2 * x.shape[shortest] <= x.shape[second] else others[-1]


def _chosen(name: str, channels: int) -> str:
    if channels == 4:
        return f"{name}[..., :3] leaves out the opacity of RGBA"
    if channels == 2:
        return f"{name}[..., :1] leaves out the opacity of grey"
    return (
        f"{channels} channels are not supported; choose one or three, such as "
        f"{name}[..., [red, green, blue]] with their numbers from 0 to {channels - 1}"
    )
