"""The figure of reliability: whether what is believed with confidence p is right in p of the cases.

[DeGroot & Fienberg 1983; Guo et al. 2017, arXiv 1706.04599, Figure 1]
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from pfl.artifacts.figure import COLORS, draw
from pfl.evaluation.reliability.bins import Bins
from pfl.evaluation.reliability.sums import BINS

ACROSS = 4  # panels in a row, at most
TITLE = "Accuracy on the clients' own test samples\nby confidence; bars: share of samples"


def draw_reliability(path: Path, bins: Mapping[str, Bins]) -> None:
    """Draw accuracy against confidence, a panel a method, all clients' own test samples pooled.

    A point is a bin at its samples' mean confidence and accuracy, with a line to the diagonal, on
    which they are equal, and its area grows with the samples; bars are the share of the samples in
    each bin. A method without samples has an empty panel.
    """
    across = min(len(bins), ACROSS)
    down = -(-len(bins) // ACROSS)

    def content(figure: Figure) -> None:
        figure.suptitle(TITLE, x=0.01, ha="left")
        grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
        for axes, (name, of) in zip(grid.flat, bins.items(), strict=False):
            _panel(axes, name, of)
        for axes in grid.flat[len(bins) :]:
            axes.set_visible(False)
        for number, axes in enumerate(grid.flat[: len(bins)]):
            if number + across >= len(bins):
                axes.set_xlabel("confidence")
                axes.tick_params(labelbottom=True)
        for axes in grid[:, 0]:
            axes.set_ylabel("accuracy")

    draw(path, (max(4.4, 0.8 + 2.9 * across), 1.1 + 3.1 * down), content)


def _panel(axes: Axes, name: str, of: Bins) -> None:
    samples = int(of.count.sum())
    axes.plot([0, 1], [0, 1], color="0.6", lw=1, zorder=1)
    if samples:
        edges = np.linspace(0, 1, BINS + 1)
        axes.stairs(of.count / samples, edges, fill=True, color="0.9", zorder=0)
        known = of.count > 0
        x, y = of.confidence[known] / of.count[known], of.hits[known] / of.count[known]
        axes.vlines(x, x, y, color=COLORS[5], lw=1.2, zorder=2)
        area = np.clip(120 * of.count[known] / samples, 6, None)
        axes.scatter(x, y, area, color=COLORS[0], linewidths=0, clip_on=False, zorder=3)
    told = f"ECE {of.ece:.1%} of {samples:,} samples" if samples else "no test samples"
    axes.set_title(f"{name}\n{told}", fontsize=10)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.set_box_aspect(1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks([0, 0.25, 0.5, 0.75, 1])
        axis.set_major_formatter(PercentFormatter(1, decimals=0))
