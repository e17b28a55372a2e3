"""The figure of a sweep."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from pfl.artifacts.figure import curve_style, draw
from pfl.cli.sweep.experiments import Value
from pfl.cli.sweep.series import Point, Sweep, value_text
from pfl.evaluation.metrics import EXTERNAL_TEST, LOCAL_TEST
from pfl.report.measures import BY_KEY

DECADES = 20.0  # greatest over least value from which on the axis is logarithmic


def draw_sweep(path: Path, sweep: Sweep) -> None:
    """Draw mean accuracy against the parameter, one curve a metric.

    Numbers are an axis, on which words (``auto``) are horizontal lines. Where most values are
    words, all are places side by side. Bars go from the least to the greatest of the experiments
    with one value.
    """

    def content(figure: Figure) -> None:
        axes = figure.subplots()
        numbers, words = _values(sweep)
        for i, (metric, points) in enumerate(sweep.series.items()):
            dash, color = curve_style(i)
            if len(numbers) > 1:
                curve = [p for p in points if p.value in numbers]
                x = [p.value for p in curve]
                _means(axes, x, curve, color, marker="o", ms=5, ls=dash, label=metric)
                for p in (p for p in points if p.value in words):
                    label = f"{metric}, {p.value}"
                    axes.axhline(p.mean, color=color, lw=1.2, ls=(0, (5, 2)), label=label)
            else:
                values: list[Value] = [*numbers, *words]
                x = [values.index(p.value) for p in points]
                _means(axes, x, points, color, marker="o", ls="", label=metric)
                axes.set_xticks(range(len(values)), map(value_text, values))
                axes.margins(x=0.15)
        if len(numbers) > 1 and numbers[0] > 0 and numbers[-1] / numbers[0] >= DECADES:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set(xlabel=sweep.parameter, title=_title(sweep))
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.grid(axis="y", color="0.9")
        axes.set_axisbelow(True)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))

    draw(path, (9.0, 4.5), content)


def _title(sweep: Sweep) -> str:
    external = any("-external." in metric for metric in sweep.series)
    tests = (LOCAL_TEST, EXTERNAL_TEST) if external else (LOCAL_TEST,)
    return "\n".join(f"{BY_KEY[test].heading}: {BY_KEY[test].note}" for test in tests)


def _values(sweep: Sweep) -> tuple[list[float], list[str]]:
    """The numbers among the values, ascending, and the words."""
    values = {p.value: None for points in sweep.series.values() for p in points}
    numbers = sorted(value for value in values if not isinstance(value, str))
    return numbers, sorted(value for value in values if isinstance(value, str))


def _means(
    axes: Axes, x: Sequence[Value | int], points: Sequence[Point], color: str, **look: Any
) -> None:
    axes.plot(x, [p.mean for p in points], color=color, **look)
    axes.vlines(x, [p.low for p in points], [p.high for p in points], color=color, lw=1.5)
