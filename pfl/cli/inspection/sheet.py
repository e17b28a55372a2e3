"""Example images of every class on one sheet."""

from pathlib import Path

import numpy as np
from jaxtyping import Int, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pfl.artifacts.figure import draw
from pfl.artifacts.hashing import recorded_sha256
from pfl.artifacts.provenance import check_origin
from pfl.data.images.images import open_images
from pfl.data.samples.index import Index, read_index

ACROSS = 10  # images in a row
ROWS = 20  # classes at most
INCHES = 0.75  # of a cell
GAP = 0.04  # at each side of a picture, in cells
SMALL = 100  # pixels: smaller pictures are shown pixel by pixel


def draw_sheet(path: Path, images: Path, index: Path) -> str:
    """Draw the first training images of each class, one class a row; returns what was left out.

    Raises:
        InputError: the index is missing, or of other images.
    """
    samples = read_index(index)
    check_origin("index", samples.images_sha256, "images", recorded_sha256(images, "images"))
    shown = min(ROWS, len(samples.classes))
    with open_images(images) as opened:
        rows = [
            [np.asarray(opened.rgb(i, i + 1)[0]) for i in first_of(samples, label).tolist()]
            for label in range(shown)
        ]

    def content(figure: Figure) -> None:
        figure.suptitle(f"{images.name}: first training images of each class", x=0.01, ha="left")
        axes = figure.subplots()
        for row, pictures in enumerate(rows):
            for column, picture in enumerate(pictures):
                _place(axes, picture, row, column)
        axes.set(xlim=(0, ACROSS), ylim=(shown, 0), aspect="equal", xticks=[])
        axes.set_yticks(np.arange(shown) + 0.5, samples.classes[:shown])
        axes.tick_params(left=False)
        axes.spines[:].set_visible(False)

    draw(path, (INCHES * ACROSS + 1.6, INCHES * shown + 0.6), content)
    more = len(samples.classes) - shown
    return f"the last {more} classes are not on the sheet" if more else ""


def first_of(index: Index, label: int) -> Int[np.ndarray, " few"]:
    """The images, each once, of a class's first training samples; of test ones if it has none."""
    mine = np.equal(index.label, label)
    train = np.flatnonzero(mine & index.train)
    images = index.images_of(train if train.size else np.flatnonzero(mine))
    return images[np.sort(np.unique(images, return_index=True)[1])][:ACROSS]


def _place(axes: Axes, picture: UInt8[np.ndarray, "h w 3"], row: int, column: int) -> None:
    """Show a picture in the middle of a cell, its longer side as long as the cell allows."""
    height, width, _ = picture.shape
    half = (0.5 - GAP) / max(height, width)
    x, y = column + 0.5, row + 0.5
    sides = (x - half * width, x + half * width, y + half * height, y - half * height)
    axes.imshow(picture, extent=sides, interpolation="nearest" if width < SMALL else "antialiased")
