"""Figures of all methods side by side."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from pfl.canvas import COLORS, draw
from pfl.comparison import Compared
from pfl.vocabulary import EXTERNAL_TEST, GLOBAL_TEST, LOCAL_TEST, NEW_TEST

PANELS = {
    LOCAL_TEST: "local test: each client's model\non its own test samples",
    GLOBAL_TEST: "global test: each client's model\non everybody's test samples",
    NEW_TEST: "new test: the ensemble of the models\non everybody's test samples",
    EXTERNAL_TEST: "external test: the ensemble\non the group held out",
}
DASHES = ("-", "--", ":")  # with the colors, enough for eighteen methods


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
            label = f"{entry.mean:.1%}"
            axes.annotate(
                label, (entry.mean, place), (0, 5), textcoords="offset points", ha="center",
                fontsize=8,
            )  # fmt: skip
    axes.set_title(PANELS[name], fontsize=10)
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.margins(x=0.12, y=0.12)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)


def draw_rounds(path: Path, curves: Mapping[str, Sequence[Mapping[int, float]]]) -> None:
    """Draw the local test after each round, mean over seeds, one curve a method."""

    def content(figure: Figure) -> None:
        axes = figure.subplots()
        for i, (method, runs) in enumerate(curves.items()):
            rounds = sorted(set.intersection(*(set(run) for run in runs)))
            means = [sum(run[t] for run in runs) / len(runs) for t in rounds]
            dash = DASHES[i // len(COLORS) % len(DASHES)]
            axes.plot(rounds, means, dash, color=COLORS[i % len(COLORS)], label=method)
        axes.set_title("Local test: mean accuracy of the clients' models after each round")
        axes.set_xlabel("round")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.grid(color="0.9")
        axes.set_axisbelow(True)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))

    draw(path, (8.0, 4.5), content)
