"""The figure of a sweep."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from pfl.artifacts.figure import COLORS, draw
from pfl.cli.sweep.experiments import Value
from pfl.cli.sweep.series import Point, Sweep
from pfl.evaluation.metrics import EXTERNAL_TEST, LOCAL_TEST
from pfl.report.measures import BY_KEY

DASHES = ("-", "--", ":")
DECADES = 20.0  # greatest over least value from which on the axis is logarithmic


def draw_sweep(path: Path, found: Sweep) -> None:
    """Draw mean accuracy against the parameter, one curve a metric.

    Numbers are an axis, on which words (``auto``) are horizontal lines. Where most values are
    words, all are places side by side. Bars go from the least to the greatest of the experiments
    with one value.

    Args:
        path: the PNG file.
        found: what is drawn.
    """

    def content(figure: Figure) -> None:
        axes = figure.subplots()
        numbers, words = _values(found)
        for i, (metric, points) in enumerate(found.series.items()):
            color, dash = COLORS[i % len(COLORS)], DASHES[i // len(COLORS) % len(DASHES)]
            if len(numbers) > 1:
                _curve(axes, [p for p in points if p.value in numbers], color, dash, metric)
                _levels(axes, [p for p in points if p.value in words], color, metric)
            else:
                values: list[Value] = [*numbers, *words]
                places = {value: x for x, value in enumerate(values)}
                _marks(axes, points, [places[p.value] for p in points], color, metric)
                axes.set_xticks(range(len(places)), [_text(value) for value in places])
                axes.margins(x=0.15)
        if len(numbers) > 1 and numbers[0] > 0 and numbers[-1] / numbers[0] >= DECADES:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set(xlabel=found.parameter, title=_title(found))
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.grid(axis="y", color="0.9")
        axes.set_axisbelow(True)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))

    draw(path, (9.0, 4.5), content)


def _title(found: Sweep) -> str:
    external = any("-external." in metric for metric in found.series)
    tests = (LOCAL_TEST, EXTERNAL_TEST) if external else (LOCAL_TEST,)
    return "\n".join(f"{BY_KEY[test].heading}: {BY_KEY[test].note}" for test in tests)


def _values(found: Sweep) -> tuple[list[float], list[str]]:
    """The numbers among the values, ascending, and the words."""
    values = {p.value: None for points in found.series.values() for p in points}
    numbers = sorted(value for value in values if not isinstance(value, str))
    return numbers, sorted(value for value in values if isinstance(value, str))


def _curve(axes: Axes, points: Sequence[Point], color: str, dash: str, name: str) -> None:
    x = [p.value for p in points]
    axes.plot(x, [p.mean for p in points], dash, color=color, marker="o", ms=5, label=name)
    axes.vlines(x, [p.low for p in points], [p.high for p in points], color=color, lw=1.5)


def _levels(axes: Axes, points: Sequence[Point], color: str, name: str) -> None:
    for p in points:
        axes.axhline(p.mean, color=color, lw=1.2, ls=(0, (5, 2)), label=f"{name}, {p.value}")


def _marks(
    axes: Axes, points: Sequence[Point], places: Sequence[int], color: str, name: str
) -> None:
    axes.plot(places, [p.mean for p in points], "o", color=color, label=name)
    axes.vlines(places, [p.low for p in points], [p.high for p in points], color=color, lw=1.5)


def _text(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:g}"
