"""Figures of all methods side by side."""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from pfl.artifacts.figure import COLORS, curve_style, draw
from pfl.evaluation.metrics import EXTERNAL_TEST, GLOBAL_TEST, LOCAL_TEST, NEW_TEST
from pfl.report.comparison import Compared

PANELS = {
    LOCAL_TEST: "local test: each client's model\non its own test samples",
    GLOBAL_TEST: "global test: each client's model\non everybody's test samples",
    NEW_TEST: "new test: the ensemble of the models\non everybody's test samples",
    EXTERNAL_TEST: "external test: the ensemble\non the group that takes no part",
}
# By method and seed, a number after some of the rounds.
Runs = Mapping[str, Sequence[Mapping[int, float]]]
# Of FedHiP's heads, in the order of reports.
LEVELS, MARKERS = (":", "-.", (0, (3, 1, 1, 1)), "--", (0, (5, 2))), "soD^*"


def draw_comparison(path: Path, table: Sequence[Compared]) -> None:
    """Draw mean and standard deviation over seeds, one row a method, one panel a test."""
    shown = [name for name in PANELS if any(_known(row, name) for row in table)]

    def content(figure: Figure) -> None:
        panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
        for axes, name in zip(panels, shown, strict=True):
            _panel(axes, table, name)
        panels[0].set_yticks(range(len(table)), [row.method for row in table])
        panels[0].invert_yaxis()
        figure.suptitle(title(table))

    draw(path, (2.0 + 3.6 * len(shown), 1.9 + 0.32 * len(table)), content)


def title(table: Sequence[Compared]) -> str:
    """What the figure shows; a deviation only where a method ran more than once."""
    seeds = max(row.seeds for row in table)
    spread = f", mean ± standard deviation over {seeds} seeds" if seeds > 1 else ""
    return f"Accuracy after the last round{spread}"


def _known(row: Compared, name: str) -> bool:
    return name in row.entries and not math.isnan(row.entries[name].mean)


def _panel(axes: Axes, table: Sequence[Compared], name: str) -> None:
    for place, row in enumerate(table):
        if _known(row, name):
            entry = row.entries[name]
            spread = 0.0 if math.isnan(entry.std) else entry.std
            axes.errorbar(entry.mean, place, xerr=spread, fmt="o", color=COLORS[0], capsize=3)
            axes.annotate(
                f"{entry.mean:.1%}", (entry.mean, place), (0, 5),
                textcoords="offset points", ha="center", fontsize=8,
            )  # fmt: skip
    axes.set_title(PANELS[name], fontsize=10)
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.margins(x=0.12, y=0.12)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)


def draw_rounds(path: Path, accuracy: Runs, upload: Runs, level: tuple[str, float]) -> None:
    """Draw the local test and what was sent, after each round: mean over seeds, a curve a method.

    ``upload`` are the bytes that all clients sent in each round; ``level`` is name and accuracy of
    a method without rounds, as a horizontal line.
    """
    sent = {method: [_running(run) for run in runs] for method, runs in upload.items()}

    def content(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [3, 2]})
        _lines(left, accuracy)
        _lines(right, sent)
        if not math.isnan(level[1]):
            left.axhline(level[1], color="black", lw=1.2, ls=(0, (5, 2)), label=level[0])
        left.set_title("Local test: mean over the clients' models")
        left.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        right.set_title("Sent by all clients so far, MiB")
        right.set_ylim(bottom=0)
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center")

    draw(path, (11.0, 4.5), content)


def draw_bytes(
    path: Path, accuracy: Runs, upload: Runs, points: Mapping[str, tuple[float, float]]
) -> None:
    """Draw the local test against what was sent until then: mean over seeds, a curve a method.

    ``upload`` are the bytes that all clients sent in each round. What has one round or none is one
    of the ``points``, bytes and accuracy by name, with a line to compare curves with.
    """

    def content(figure: Figure) -> None:
        axes = figure.subplots()
        for i, (method, runs) in enumerate(accuracy.items()):
            sent = [_running(run) for run in upload[method]]
            rounds = sorted(set.intersection(*map(set, [*runs, *sent])))
            places, means = ([_mean(of, t) for t in rounds] for of in (sent, runs))
            dash, color = curve_style(i)
            axes.plot(places, means, dash, marker=".", color=color, label=method)
        for (name, (size, value)), style, marker in zip(
            points.items(), LEVELS, MARKERS, strict=True
        ):
            axes.axhline(value, color="black", lw=0.8, ls=style, alpha=0.6)
            x, y = [size / 2**20], [value]
            axes.plot(x, y, marker, color="black", mfc="white", ms=7, ls=style, label=name)
        axes.set_title("Local test: mean over the clients' models, by what they had sent")
        axes.set_xlabel("sent by all clients so far, MiB")
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.grid(color="0.9")
        axes.set_axisbelow(True)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))

    draw(path, (9.0, max(4.5, 1.0 + 0.24 * (len(accuracy) + len(points)))), content)


def _mean(runs: Sequence[Mapping[int, float]], number: int) -> float:
    return sum(run[number] for run in runs) / len(runs)


def _running(run: Mapping[int, float]) -> dict[int, float]:
    """Bytes of each round, as MiB up to each round."""
    return dict(zip(run, (total / 2**20 for total in accumulate(run.values())), strict=True))


def _lines(axes: Axes, curves: Runs) -> None:
    for i, (method, runs) in enumerate(curves.items()):
        rounds = sorted(set.intersection(*map(set, runs)))
        dash, color = curve_style(i)
        axes.plot(rounds, [_mean(runs, t) for t in rounds], dash, color=color, label=method)
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
