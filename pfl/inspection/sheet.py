"""Example images of every class on one sheet."""

from pathlib import Path

import numpy as np
from jaxtyping import Int, UInt8
from matplotlib.figure import Figure

from pfl.artifacts import check_origin, recorded_sha256
from pfl.canvas import draw
from pfl.images import Images, open_images
from pfl.index import Index, read_index

ACROSS = 10  # images in a row
ROWS = 20  # classes at most
INCHES = 0.75  # of an image


def draw_sheet(path: Path, images: Path, index: Path) -> str:
    """Draw the first training images of each class, one class a row; returns what was left out.

    Raises:
        InputError: the index is missing, or of other images.
    """
    samples = read_index(index)
    check_origin("index", samples.images_sha256, "images", recorded_sha256(images, "images"))
    shown = min(ROWS, len(samples.classes))
    with open_images(images) as opened:
        rows = [_examples(opened, samples, label) for label in range(shown)]
    height = INCHES * shown + 0.6

    def content(figure: Figure) -> None:
        figure.suptitle(f"{images.name}: first training images of each class", x=0.01, ha="left")
        grid = figure.subplots(shown, ACROSS, squeeze=False)
        for axes in grid.flat:
            axes.set_axis_off()
        for label, pictures in enumerate(rows):
            _name(grid[label, 0], samples.classes[label])
            for axes, picture in zip(grid[label], pictures, strict=False):
                axes.imshow(picture, interpolation="nearest")

    draw(path, (INCHES * ACROSS + 1.6, height), content)
    more = len(samples.classes) - shown
    return f"the last {more} classes are not on the sheet" if more else ""


def _examples(images: Images, index: Index, label: int) -> list[UInt8[np.ndarray, "_ _ 3"]]:
    numbers = first_of(index, label)
    return [np.asarray(images.rgb(i, i + 1)[0]) for i in numbers.tolist()]


def first_of(index: Index, label: int) -> Int[np.ndarray, " few"]:
    """The first training samples of a class; test samples where it has none."""
    mine = np.equal(index.label, label)
    train = np.flatnonzero(mine & index.train)
    return (train if train.size else np.flatnonzero(mine))[:ACROSS]


def _name(axes: object, name: str) -> None:
    axes.text(-0.1, 0.5, name, transform=axes.transAxes, ha="right", va="center")  # type: ignore[attr-defined]
