"""The figure of accuracy along each family's parameter, with what the clients chose."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from pfl.artifacts.figure import COLORS, draw
from pfl.evaluation.alpha_curve import DRAWN, AccuracyCurves
from pfl.fedhip.families.table import Candidate, Family


def draw_curves(
    path: Path,
    curves: AccuracyCurves,
    chosen: Sequence[Candidate | None],
    own: Mapping[str, Float[np.ndarray, " clients"]],
) -> None:
    """Draw mean test accuracy against each family's parameter, and each client at its choice.

    One panel a family. The curve is the mean over the clients of ``curves`` if all had this value;
    dashed lines are the means of what they have, by the kind of head; points are the clients that
    chose this family. ``chosen`` is None where a client left; ``own`` is accuracy by kind of head.
    """

    def content(figure: Figure) -> None:
        stayed = sum(candidate is not None for candidate in chosen)
        figure.suptitle(_title(curves, stayed), x=0.01, ha="left")
        panels = figure.subplots(1, len(DRAWN), sharey=True)
        for axes, (family, curve) in zip(panels, DRAWN.items(), strict=True):
            _curve(axes, curves.values[family], curves.accuracy[family])
            _levels(axes, curves, own)
            _points(axes, curves, chosen, own["personalized"], family)
            axes.set(xscale="log", xlabel=curve.symbol, title=curve.title)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.yaxis.set_major_formatter(PercentFormatter(1))
            axes.grid(axis="y", color="0.9")
            axes.set_axisbelow(True)
        panels[0].set_ylabel("accuracy on the client's own test set")
        panels[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5))

    draw(path, (5.5 * len(DRAWN), 4.5), content)


def _title(curves: AccuracyCurves, clients: int) -> str:
    shown = len(curves.clients)
    which = f"all {shown} clients" if shown == clients else f"{shown} of {clients} clients"
    return f"Accuracy along each path, {which}"


def _curve(axes: Axes, values: Sequence[float], accuracy: Float[np.ndarray, "k values"]) -> None:
    if len(accuracy):
        axes.plot(values, accuracy.mean(axis=0), color=COLORS[2], lw=2, label="one for all")


def _levels(
    axes: Axes, curves: AccuracyCurves, own: Mapping[str, Float[np.ndarray, " clients"]]
) -> None:
    for (name, value), color in zip(own.items(), (COLORS[0], COLORS[1], COLORS[3]), strict=True):
        if len(curves.clients):
            mean = float(value[curves.clients].mean())
            axes.axhline(mean, color=color, lw=1.2, ls="--", label=f"{name}\nmean {mean:.1%}")


def _points(
    axes: Axes,
    curves: AccuracyCurves,
    chosen: Sequence[Candidate | None],
    accuracy: Float[np.ndarray, " clients"],
    family: Family,
) -> None:
    shown = [(candidate, k) for k in curves.clients.tolist() if (candidate := chosen[k])]
    along = [(candidate.along, k) for candidate, k in shown if candidate.family is family]
    above = [(value, k) for value, k in along if value > 0]  # 0 has no place on this axis
    axes.scatter(
        [value for value, _ in above],
        [accuracy[k] for _, k in above],
        18,
        color=COLORS[3],
        alpha=0.5,
        linewidths=0,
        label=f"a client's choice\n({len(along)} here)",
    )
