"""The figure of a partition: how many samples of which class each client holds."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pfl.artifacts.figure import COLORS, draw, ticks

NAMED = 25  # classes that are named, not numbered
NUMBERED = 150  # cells that carry their number
# From nothing, so that the ground shows, to full blue: readable on white and on dark.
DEPTH = LinearSegmentedColormap.from_list("depth", [f"{COLORS[0]}00", COLORS[0]])
CELLS = 250  # cells across and down that still can be told apart


def draw_counts(
    path: Path,
    train: Int[np.ndarray, "clients classes"],
    test: Int[np.ndarray, "clients classes"],
    classes: Sequence[str],
    title: str,
) -> None:
    """Draw samples per client above a heat map of training samples per class and client."""
    clients = len(train)
    width = float(np.clip(2.5 + 0.22 * clients, 7, 12))
    height = float(np.clip(3.2 + 0.22 * len(classes), 4.5, 8))

    def content(figure: Figure) -> None:
        figure.suptitle(title, x=0.01, ha="left")
        sizes, heat = figure.subplots(
            2, 1, sharex=True, gridspec_kw={"height_ratios": [1.3, height - 2.3]}
        )
        _sizes(sizes, train.sum(1), test.sum(1))
        _heat(figure, heat, train, classes)

    draw(path, (width, height), content)


def _sizes(
    axes: Axes, train: Int[np.ndarray, " clients"], test: Int[np.ndarray, " clients"]
) -> None:
    edges = np.arange(len(train) + 1) - 0.5
    axes.stairs(train + test, edges, fill=True, color=COLORS[1], label="test")
    axes.stairs(train, edges, fill=True, color=COLORS[0], label="training")
    axes.set_ylabel("samples")
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.tick_params(axis="x", bottom=False, labelbottom=False)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0)


def _heat(
    figure: Figure, axes: Axes, train: Int[np.ndarray, "clients classes"], classes: Sequence[str]
) -> None:
    clients, height = train.shape
    wide, high = -(-clients // CELLS), -(-height // CELLS)
    cells = _binned(train, wide, high)
    top = max(int(cells.max()), 1)
    edge = (wide * cells.shape[0] - 0.5, high * cells.shape[1] - 0.5)
    image = axes.imshow(
        cells.T,
        aspect="auto",
        cmap=DEPTH,
        norm=PowerNorm(0.5, 0, top),
        extent=(-0.5, edge[0], edge[1], -0.5),
        interpolation="nearest",
    )
    axes.set(xlim=(-0.5, clients - 0.5), ylim=(height - 0.5, -0.5), xlabel="client")
    axes.set_xticks(ticks(clients, 20))
    if height <= NAMED:
        axes.set_yticks(range(height), [_short(name) for name in classes])
        axes.set_ylabel("class")
    else:
        axes.set_yticks(ticks(height, 20))
        axes.set_ylabel("class number")
    bar = figure.colorbar(image, ax=axes, pad=0.01, aspect=30)
    bar.set_label("training samples" + _per_cell(wide, high))
    bar.locator = MaxNLocator(6, integer=True)
    bar.update_ticks()
    if train.size <= NUMBERED:
        for client, c in np.argwhere(train):
            value = train[client, c]
            ink = "white" if value > 0.3 * top else "black"
            axes.text(client, c, str(value), ha="center", va="center", fontsize=8, color=ink)


def _binned(
    values: Int[np.ndarray, "clients classes"], wide: int, high: int
) -> Int[np.ndarray, "columns rows"]:
    """Sums over cells of ``wide`` neighboring clients times ``high`` neighboring classes."""
    clients, classes = values.shape
    columns = np.add.reduceat(values, np.arange(0, clients, wide), axis=0)
    return np.add.reduceat(columns, np.arange(0, classes, high), axis=1)


def _per_cell(wide: int, high: int) -> str:
    across = f"{wide} clients" if wide > 1 else "client"
    down = f"{high} classes" if high > 1 else "class"
    return f" per {across} and {down}" if wide > 1 or high > 1 else ""


def _short(name: str, longest: int = 18) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"
