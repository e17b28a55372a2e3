"""What the clients' local test says of a method's difference to the baseline, and the table of it.

Written into the comparison with every method, under ``difference``; read again for the page and
``pfl results``. What the numbers mean: ``docs/statistics.md``.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pfl.artifacts.json import number_at, other_form
from pfl.evaluation.metrics import LOCAL_TEST, WORST_DECILE
from pfl.report.measures import UNKNOWN, percent
from pfl.report.statistics.summary import Line

WORST = f"{LOCAL_TEST}:{WORST_DECILE}"
BOLD, DIFFERENCE = "bold", "difference"
ENDS = ("low", "high")  # of intervals
NUMBERS = ("mean", *ENDS, "p", "holm", "gain", "lose", "same", "least", "most")
COLUMNS = tuple(DIFFERENCE if name == "mean" else f"{DIFFERENCE}:{name}" for name in NUMBERS)
NOTE = (
    "Intervals of 95 % are about new clients of the same population: of this partition and "
    "training where there is one. Difference: of the mean over clients, in points; p: of no "
    "difference, by flipping clients' signs, corrected for the number of methods (Holm). Gain, "
    "lose: clients that are better and worse by the method than by the baseline; worst: what the "
    "client that loses most loses, in points."
)
Rows = list[list[str]]


def ends(line: Line) -> dict[str, tuple[float, float]]:
    """Low and high end of the intervals of the local test's measures."""
    return {LOCAL_TEST: (line.mean.low, line.mean.high), WORST: (line.worst.low, line.worst.high)}


def numbers(line: Line) -> dict[str, float | int]:
    """The ``NUMBERS`` of the difference to the baseline, of which the baseline itself has none."""
    if line.against is None:
        return dict.fromkeys(NUMBERS, math.nan)
    difference, effect = line.against.difference, line.against.effect
    values = (
        difference.value, difference.low, difference.high, line.against.p, line.against.corrected,
        effect.gain, effect.lose, effect.same, effect.least, effect.most,
    )  # fmt: skip
    return dict(zip(NUMBERS, values, strict=True))


def baseline_of(path: Path, comparison: Mapping[str, Any]) -> str | None:
    """The method that others are compared with; None where a comparison has no differences.

    Raises:
        InputError: the file, which is at ``path``, is of another form.
    """
    rows = {name: row for name, row in comparison.items() if isinstance(row, dict)}
    if not rows or not all(DIFFERENCE in row for row in rows.values()):
        return None
    found = [name for name, row in rows.items() if row[DIFFERENCE] is None]
    if len(found) != 1:
        raise other_form(path, f"{len(found)} methods have no difference, which one should")
    return found[0]


def difference_rows(
    path: Path, comparison: Mapping[str, Any], worst: bool
) -> tuple[Sequence[str], Rows]:
    """Headings, and the cells of each method: with the interval of the ``worst`` tenth or without.

    Raises:
        InputError: a number is missing or of another form.
    """
    shown = (LOCAL_TEST, WORST) if worst else (LOCAL_TEST,)
    headings = ["local test", "worst tenth"][: len(shown)]
    rows = []
    for method in comparison:
        cells = [_interval(path, comparison, (method, test)) for test in shown]
        place = (method, DIFFERENCE)
        found = {name: number_at(path, comparison, (*place, name)) for name in NUMBERS}
        cells += [_interval(path, comparison, place, signed=True), _p(found["holm"])]
        cells += [UNKNOWN if found[n] is None else f"{found[n]:.0f}" for n in ("gain", "lose")]
        least = found["least"]
        rows.append([*cells, UNKNOWN if least is None else f"{100 * max(0.0, -least):.1f}"])
    return [*headings, "difference", "p", "gain", "lose", "worst"], rows


def _interval(
    path: Path, comparison: Mapping[str, Any], place: Sequence[str], signed: bool = False
) -> str:
    mean, low, high = (number_at(path, comparison, (*place, name)) for name in ("mean", *ENDS))
    if mean is None or low is None or high is None:
        return UNKNOWN if mean is None else percent(mean)
    if signed:
        return f"{_points(mean)} [{_points(low)}, {_points(high)}]"
    return f"{percent(mean)} [{percent(low)}, {percent(high)}]"


def _points(value: float) -> str:
    text = f"{100 * value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text


def _p(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
