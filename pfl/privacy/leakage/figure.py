"""The figure of what each client's upload exposes, next to its number of samples."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter

from pfl.artifacts.figure import COLORS, draw
from pfl.privacy.leakage.score import Exposure

NUMBERED = 40  # clients whose number is written below
GAP = 0.6  # between the clients and the sum over them, in bars
Bars = Float[np.ndarray, " n"]
EXACT, ESTIMATED, PLAIN = COLORS[0], COLORS[1], "0.55"


def draw_exposure(path: Path, clients: Sequence[Exposure], total: Exposure, width: int) -> None:
    """Draw, for clients from the fewest samples to the most and for their sum, what is exposed.

    Panels from the top: samples, with a line at m; features that stand in B; samples per
    class, 100% less the share that they are found wrong by; membership advantage. ``width`` is m.
    """
    order = np.argsort([exposure.samples for exposure in clients], kind="stable")
    shown = [*(clients[k] for k in order), total]
    x = np.arange(len(shown)) + np.append(np.zeros(len(order)), GAP)
    exact = np.array([exposure.exact for exposure in shown])

    def content(figure: Figure) -> None:
        figure.suptitle("What each client's upload gives away to the server", x=0.01, ha="left")
        panels = figure.subplots(4, 1, sharex=True, gridspec_kw={"height_ratios": [1.2, 1, 1, 1]})
        _samples(panels[0], x, shown, width)
        _bars(panels[1], x, np.array([exposure.single for exposure in shown]), np.ones_like(exact))
        panels[1].yaxis.set_major_locator(MaxNLocator(3, integer=True))
        panels[1].set_title("features that stand in the upload as they are (a class's only sample)")
        right = [max(0.0, 1 - exposure.miscounted / max(exposure.samples, 1)) for exposure in shown]
        _shares(panels[2], x, np.array(right), exact)
        panels[2].set_title("samples per class: share found, without being told the counts")
        _shares(panels[3], x, np.array([exposure.advantage for exposure in shown]), exact)
        panels[3].set_title("membership: own samples recognized, less others taken for own")
        _clients(panels[3], x, order)
        figure.legend(
            handles=[Patch(color=EXACT), Patch(color=ESTIMATED)],
            labels=["exact arithmetic", "in floating point: rounded estimate, or threshold"],
            loc="outside lower left",
            ncols=2,
        )

    draw(path, (float(np.clip(4 + 0.22 * len(shown), 7.5, 12)), 7.5), content)


def _samples(axes: Axes, x: Bars, shown: Sequence[Exposure], width: int) -> None:
    samples = np.array([exposure.samples for exposure in shown])
    axes.bar(x, samples, 0.8, color=PLAIN)
    axes.axhline(width, color="black", lw=1, ls="--")
    axes.text(x[0] - 0.5, width * 1.1, f"m = {width} features", va="bottom")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_ylim(max(0.5, 0.5 * samples.min()), 5 * max(samples.max(), width))
    axes.set_title("training samples")


def _bars(axes: Axes, x: Bars, height: np.ndarray, exact: Bool[np.ndarray, " n"]) -> None:
    axes.bar(x, height, 0.8, color=[EXACT if known else ESTIMATED for known in exact])
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)


def _shares(axes: Axes, x: Bars, share: Bars, exact: Bool[np.ndarray, " n"]) -> None:
    _bars(axes, x, share, exact)
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1))


def _clients(axes: Axes, x: Bars, order: np.ndarray) -> None:
    """Name the bars: client numbers if they fit, and the sum."""
    axes.set_xlim(x[0] - 0.7, x[-1] + 0.7)
    few = len(order) <= NUMBERED
    numbers = [str(k) for k in order] if few else []
    axes.set_xticks(x if few else x[-1:], [*numbers, "sum"])
    axes.set_xlabel("client, from the fewest samples to the most; at the right the sum over all")
