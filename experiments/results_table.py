"""The tables of docs/results.md, from the lines that :mod:`experiments.results` writes.

A cell is the mean over partitions and clients with the 95 % interval of
:mod:`pfl.report.statistics`, bold where the interval of the difference to the best method holds 0.
A method that was not run on every partition of its column has no interval, and no cell in the table
of differences.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pfl.evaluation.metrics import FEDHIP_PREFIX, PERSONALIZED
from pfl.report.statistics.difference import difference
from pfl.report.statistics.outcomes import Outcomes
from pfl.report.statistics.summary import Line, summarize

BASELINE = f"{FEDHIP_PREFIX}{PERSONALIZED}"
Row = dict[str, str]


@dataclass(frozen=True)
class Column:
    """One setting: the lines of each method, one a partition, and what they say together."""

    rows: dict[str, list[Row]]
    lines: dict[str, Line]
    best: set[str]

    def mean(self, method: str, measure: str) -> float:
        """Over partitions."""
        return float(np.mean([float(row[measure]) for row in self.rows[method]]))


def column(rows: Sequence[Row]) -> Column:
    """Gather the lines of one setting."""
    partitions = sorted({row["partition"] for row in rows})
    by_method: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["partition"]):
        by_method.setdefault(row["method"], []).append(row)
    whole = {name: of for name, of in by_method.items() if len(of) == len(partitions)}
    tested = [_numbers(row["tested"]).astype(np.int64) for row in whole[BASELINE]]
    right = {name: [_numbers(row["right"])[None] for row in of] for name, of in whole.items()}
    outcomes = Outcomes(tested, right)
    lines = summarize(outcomes, BASELINE)
    top = max(lines, key=lambda name: lines[name].mean.value)
    level = {name for name in lines if not difference(outcomes, top, name).low > 0}
    return Column(by_method, lines, {top} | level)


def _numbers(text: str) -> np.ndarray:
    return np.array(text.split(), np.float64)


def tables(rows: Sequence[Row], settings: Sequence[str], measures: Sequence[str]) -> str:
    """Markdown: a table a measure, with a line a method and a column a setting, in per cent."""
    columns = {
        name: column([row for row in rows if row["setting"] == name])
        for name in settings
        if any(row["setting"] == name for row in rows)
    }
    methods = list(dict.fromkeys(row["method"] for row in rows))
    made = [
        _table("own test samples, mean over clients", columns, methods, _accuracy),
        _table(f"the same less {BASELINE}, points", columns, methods, _difference),
        _table("worst tenth of the clients", columns, methods, _worst),
    ]
    made += [_table(name, columns, methods, partial(_plain, name)) for name in measures]
    return "\n".join(made)


def _plain(measure: str, of: Column, method: str) -> str:
    return f"{100 * of.mean(method, measure):.1f}"


def _accuracy(of: Column, method: str) -> str:
    if method not in of.lines:
        return f"{100 * float(of.rows[method][0]['local-test']):.1f}"
    line = of.lines[method]
    text = f"{100 * line.mean.value:.1f}"
    half = f" ± {50 * (line.mean.high - line.mean.low):.1f}"
    return (f"**{text}**" if method in of.best else text) + half


def _worst(of: Column, method: str) -> str:
    line = of.lines.get(method)
    return f"{100 * line.worst.value:.1f}" if line else ""


def _difference(of: Column, method: str) -> str:
    line = of.lines.get(method)
    if line is None or line.against is None:
        return ""
    found = line.against.difference
    text = f"{100 * found.value:+.1f} ({100 * found.low:+.1f}, {100 * found.high:+.1f})"
    return f"**{text}**" if line.against.corrected < 0.05 else text


def _table(
    title: str,
    columns: dict[str, Column],
    methods: Sequence[str],
    cell: Callable[[Column, str], str],
) -> str:
    lines = [
        f"\n{title}\n",
        f"| method | {' | '.join(columns)} |",
        f"|---|{'---:|' * len(columns)}",
    ]
    for method in methods:
        cells = [cell(of, method) if method in of.rows else "" for of in columns.values()]
        if any(cells):
            lines.append(f"| `{method}` | {' | '.join(cells)} |")
    return "\n".join(lines)
