"""The figure of accuracy along α and ρ, with what the clients chose."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from pfl.artifacts.figure import COLORS, draw
from pfl.evaluation.alpha_curve import Paths
from pfl.fedhip.selection.candidates import Candidate, Family


def draw_paths(
    path: Path,
    paths: Paths,
    chosen: Sequence[Candidate | None],
    own: Mapping[str, Float[np.ndarray, " clients"]],
) -> None:
    """Draw mean test accuracy against α and ρ, and each client at its choice.

    One panel a family. The curve is the mean over the clients of ``paths`` if all had this value;
    dashed lines are the means of what they have, each kind of head; points are the clients that
    chose this family.

    Args:
        path: the PNG file.
        paths: accuracy along α and ρ.
        chosen: what every client's personalized head is, None where the client left.
        own: accuracy of every client's heads, by the kind of head.
    """
    panels = (
        ("α", "equation (14) at the server's β", Family.FEDHIP, paths.alphas, paths.fedhip),
        ("ρ", "anchored at the global head", Family.ANCHORED, paths.rhos, paths.anchored),
    )

    def content(figure: Figure) -> None:
        stayed = sum(one is not None for one in chosen)
        figure.suptitle(_title(paths, stayed), x=0.01, ha="left")
        axes = figure.subplots(1, 2, sharey=True)
        for one, (name, title, family, values, accuracy) in zip(axes, panels, strict=True):
            _curve(one, values, accuracy)
            _levels(one, paths, own)
            _points(one, paths, chosen, own["personalized"], family)
            one.set(xscale="log", xlabel=name, title=title)
            one.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            one.yaxis.set_major_formatter(PercentFormatter(1))
            one.grid(axis="y", color="0.9")
            one.set_axisbelow(True)
        axes[0].set_ylabel("accuracy on the client's own test set")
        axes[1].legend(loc="center left", bbox_to_anchor=(1, 0.5))

    draw(path, (11.0, 4.5), content)


def _title(paths: Paths, clients: int) -> str:
    shown = len(paths.clients)
    which = f"all {shown} clients" if shown == clients else f"{shown} of {clients} clients"
    return f"Accuracy along each path, {which}"


def _curve(axes: Axes, values: Sequence[float], accuracy: Float[np.ndarray, "k values"]) -> None:
    if len(accuracy):
        axes.plot(values, accuracy.mean(axis=0), color=COLORS[2], lw=2, label="one for all")


def _levels(axes: Axes, paths: Paths, own: Mapping[str, Float[np.ndarray, " clients"]]) -> None:
    for (name, value), color in zip(own.items(), (COLORS[0], COLORS[1], COLORS[3]), strict=True):
        if len(paths.clients):
            mean = float(value[paths.clients].mean())
            axes.axhline(mean, color=color, lw=1.2, ls="--", label=f"{name}\nmean {mean:.1%}")


def _points(
    axes: Axes,
    paths: Paths,
    chosen: Sequence[Candidate | None],
    accuracy: Float[np.ndarray, " clients"],
    family: Family,
) -> None:
    picked = [(one, k) for k in paths.clients.tolist() if (one := chosen[k]) is not None]
    mine = [(one, k) for one, k in picked if one.family is family]
    values = [(one.alpha if family is Family.FEDHIP else one.rho, k) for one, k in mine]
    above = [(x, k) for x, k in values if x > 0]
    axes.scatter(
        [x for x, _ in above],
        [accuracy[k] for _, k in above],
        18,
        color=COLORS[3],
        alpha=0.5,
        linewidths=0,
        label=f"a client's choice\n({len(mine)} here)",
    )
