"""Figures of accuracy per client."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from pfl.artifacts.figure import COLORS, draw, ticks

MARKERS = ("o", "s", "^", "D", "v", "P")
FEW = 40  # clients that get marks of their own


def draw_accuracy(
    path: Path,
    values: Mapping[str, Float[np.ndarray, " clients"]],
    title: str,
) -> None:
    """Draw accuracy per client for several heads; a client without a value (NaN) has no mark.

    Up to ``FEW`` clients: one mark per client and head, and each head's mean as a line. More: each
    head's clients sorted from worst to best, with the worst decile shaded.
    """
    clients = len(next(iter(values.values())))

    def content(figure: Figure) -> None:
        axes = figure.subplots()
        (_dots if clients <= FEW else _curves)(axes, values)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.grid(axis="y", color="0.9")
        axes.set_axisbelow(True)
        axes.set_ylabel("accuracy on the client's own test set")
        axes.set_title(title)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))

    draw(path, (float(np.clip(4.5 + 0.22 * min(clients, FEW), 7, 12)), 4.5), content)


def _dots(axes: Axes, values: Mapping[str, Float[np.ndarray, " clients"]]) -> None:
    offsets = np.linspace(-0.22, 0.22, len(values)) if len(values) > 1 else [0.0]
    clients = 0
    for i, (name, value) in enumerate(values.items()):
        clients = len(value)
        axes.plot(
            np.arange(clients) + offsets[i],
            value,
            MARKERS[i],
            color=COLORS[i],
            label=_label(name, value),
        )
        if not np.isnan(value).all():
            axes.axhline(float(np.nanmean(value)), color=COLORS[i], lw=1, ls="--", zorder=0)
    for client in range(clients - 1):
        axes.axvline(client + 0.5, color="0.93", lw=0.8, zorder=0)
    axes.set_xlim(-0.6, clients - 0.4)
    axes.set_xticks(ticks(clients, 20))
    axes.set_xlabel("client (dashed: mean over clients)")


def _curves(axes: Axes, values: Mapping[str, Float[np.ndarray, " clients"]]) -> None:
    axes.axvspan(0, 0.1, color="0.93", zorder=0)
    for i, (name, value) in enumerate(values.items()):
        ordered = np.sort(value[~np.isnan(value)])
        edges = np.linspace(0, 1, len(ordered) + 1)
        axes.stairs(ordered, edges, baseline=None, color=COLORS[i], lw=2, label=_label(name, value))
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.set_xlabel("clients, from each head's worst to its best (shaded: worst decile)")


def _label(name: str, value: Float[np.ndarray, " clients"]) -> str:
    known = value[~np.isnan(value)]
    return f"{name}\nmean {known.mean():.1%}" if len(known) else f"{name}\nno test samples"


def draw_gain(
    path: Path,
    values: Float[np.ndarray, " clients"],
    baselines: Mapping[str, Float[np.ndarray, " clients"]],
    samples: Int[np.ndarray, " clients"],
    name: str,
) -> None:
    """Draw accuracy against that of baselines, one point a client, one panel a baseline.

    Above the diagonal ``name`` is better. Areas grow with the client's test samples; clients
    without any are left out.
    """
    known = samples > 0
    seen = [accuracies[known] for accuracies in (values, *baselines.values())]
    low = float(np.floor(10 * np.min(seen, initial=0.9)) / 10)

    def content(figure: Figure) -> None:
        figure.suptitle(
            f"The {name} head against the {' and the '.join(baselines)} head, one point a client",
            x=0.01,
            ha="left",
        )
        panels = figure.subplots(1, len(baselines), sharey=True, squeeze=False)[0]
        panels[0].set_ylabel(f"accuracy of the {name} head")
        for axes, (other, baseline) in zip(panels, baselines.items(), strict=True):
            _versus(axes, baseline[known], values[known], samples[known], low)
            axes.set_xlabel(f"accuracy of the {other} head")

    draw(path, (1 + 4.3 * len(baselines), 5.4), content)


def _versus(
    axes: Axes,
    x: Float[np.ndarray, " clients"],
    y: Float[np.ndarray, " clients"],
    samples: Int[np.ndarray, " clients"],
    low: float,
) -> None:
    area = np.clip(60 * samples / max(samples.max(initial=1), 1), 6, None)
    axes.plot([0, 1], [0, 1], color="0.6", lw=1, zorder=0)
    axes.scatter(
        x, y, area, color=COLORS[2], alpha=0.6, linewidths=0.4, edgecolors="black", clip_on=False
    )
    margin = 0.03 * (1 - low)
    axes.set(xlim=(low - margin, 1 + margin), ylim=(low - margin, 1 + margin))
    axes.set_box_aspect(1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(PercentFormatter(1))
    better, equal, worse = int((y > x).sum()), int((y == x).sum()), int((y < x).sum())
    axes.set_title(f"better for {better}, equal for {equal}, worse for {worse}")
