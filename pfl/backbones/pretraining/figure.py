"""Figures of pretraining: reconstructed images, and loss and probe over the epochs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pfl.artifacts.figure import COLORS, draw

ROWS = ("original", "visible", "reconstruction")
INCH = 1.0  # of one image


def draw_reconstructions(path: Path, rows: Sequence[Float[np.ndarray, "n h w 3"]]) -> None:
    """Rows of images, 0 … 1: originals, what the encoder sees, what the decoder predicts."""
    count = len(rows[0])

    def content(figure: Figure) -> None:
        figure.suptitle("Hidden patches and their reconstruction", x=0.01, ha="left")
        for line, (name, images) in enumerate(zip(ROWS, rows, strict=True)):
            for column, image in enumerate(images):
                axes = figure.add_subplot(len(rows), count, line * count + column + 1)
                axes.imshow(image, interpolation="nearest")
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(False)
                if column == 0:
                    axes.set_ylabel(name)

    draw(path, (INCH * count + 0.4, INCH * len(rows) + 0.5), content)


def draw_curve(path: Path, history: Sequence[Mapping[str, int | float]]) -> None:
    """The loss, and where there was a probe its accuracy, over epochs."""
    probed = any("probe" in row for row in history)

    def content(figure: Figure) -> None:
        panels = figure.subplots(1, 1 + probed, squeeze=False)[0]
        _line(panels[0], history, "loss", "loss on hidden patches", COLORS[5])
        if probed:
            _line(
                panels[1], history, "probe", "accuracy of the linear probe in %", COLORS[0], 100.0
            )

    draw(path, (4.6 * (1 + probed), 3.2), content)


def _line(
    axes: Axes,
    history: Sequence[Mapping[str, int | float]],
    name: str,
    title: str,
    color: str,
    scale: float = 1.0,
) -> None:
    rows = [row for row in history if name in row]
    epochs = [row["epoch"] for row in rows]
    axes.plot(epochs, [scale * row[name] for row in rows], color=color, marker=".")
    axes.set(title=title, xlabel="epoch")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.grid(color="#e6e6e6")
