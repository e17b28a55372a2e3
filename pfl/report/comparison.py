"""All methods side by side: means, deviations over seeds, and whether differences are luck."""

import csv
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from pfl.artifacts.csv import DIGITS, csv_text
from pfl.artifacts.json import json_text, load_report, other_form
from pfl.errors import InputError
from pfl.evaluation.metrics import EXTERNAL_TEST, FEDHIP_PREFIX, HEADS, LOCAL_TEST
from pfl.report.differences import BOLD, COLUMNS, DIFFERENCE, ENDS, ends, numbers
from pfl.report.measures import MEASURES
from pfl.report.statistics.summary import Line


@dataclass(frozen=True)
class Entry:
    """One measure of one method: the mean over the runs that measured it, NaN if there are none.

    ``std`` is the sample standard deviation (divided by their number less one), NaN for one.
    """

    mean: float
    std: float


@dataclass(frozen=True)
class Compared:
    """One method; heads by gradients are ``heads:<name>``, FedHiP's ``fedhip:local`` and so on.

    ``entries`` are by the keys of :data:`pfl.report.measures.MEASURES`, those that some method has.
    ``line`` is what the local test of its clients says.
    """

    method: str
    seeds: int
    entries: Mapping[str, Entry]
    line: Line


def gather(
    runs: Mapping[str, Sequence[Path]], fedhip: Path, lines: Mapping[str, Line]
) -> list[Compared]:
    """What each method's runs, a folder a seed, and FedHiP's heads have in ``metrics.json``.

    What no method has measured (an external test, a validation) is left out. ``lines`` are by
    method, see :func:`pfl.report.statistics.summary.summarize`.

    Raises:
        InputError: a file is missing or of another form.
    """
    folders = {**runs, **{f"{FEDHIP_PREFIX}{head}": [fedhip] for head in HEADS}}
    rows = [_compared(method, of_seeds, lines[method]) for method, of_seeds in folders.items()]
    known = [m.key for m in MEASURES if any(not math.isnan(r.entries[m.key].mean) for r in rows)]
    return [replace(row, entries={name: row.entries[name] for name in known}) for row in rows]


def _compared(method: str, folders: Sequence[Path], line: Line) -> Compared:
    paths = [folder / "metrics.json" for folder in folders]
    reports = [(path, load_report(path)) for path in paths]
    entries = {}
    for measure in MEASURES:
        values = [measure.of(path, report, method) for path, report in reports]
        known = [value for value in values if value is not None]
        entries[measure.key] = Entry(
            mean=statistics.fmean(known) if known else math.nan,
            std=statistics.stdev(known) if len(known) > 1 else math.nan,
        )
    return Compared(method, len(folders), entries, line)


def run_folders(
    runs: Path, methods: Sequence[str], seeds: Sequence[int], prefix: str = ""
) -> dict[str, list[Path]]:
    """The folders ``runs/<method>/seed-<seed>``, by ``prefix`` and method."""
    return {
        f"{prefix}{method}": [runs / method / f"seed-{seed}" for seed in seeds]
        for method in methods
    }


def comparison_csv(table: Sequence[Compared]) -> str:
    """A line a method; a column for the mean and one for the deviation of each measure.

    After them what the local test says: ends of intervals, whether the method is in bold, and the
    difference to the baseline.
    """
    columns = [name for measure in table[0].entries for name in (measure, f"{measure}:std")]
    bounds = [f"{test}:{end}" for test in ends(table[0].line) for end in ENDS]
    rows = (
        [
            row.method,
            row.seeds,
            *(x for e in row.entries.values() for x in (e.mean, e.std)),
            *chain.from_iterable(ends(row.line).values()),
            int(row.line.bold),
            *numbers(row.line).values(),
        ]
        for row in table
    )
    return csv_text(["method", "seeds", *columns, *bounds, BOLD, *COLUMNS], rows)


def comparison_json(table: Sequence[Compared]) -> str:
    """The same, by method and measure; what is unknown is null.

    Intervals and ``bold`` stand beside the mean that they are of, and ``difference`` has the
    method's difference to the baseline; the baseline itself has null.
    """
    return json_text({row.method: _json(row) for row in table})


def _json(row: Compared) -> dict[str, object]:
    told: dict[str, object] = {"seeds": row.seeds}
    for key, entry in row.entries.items():
        of = {"mean": entry.mean, "std": entry.std}
        of |= dict(zip(ENDS, ends(row.line).get(key, ()), strict=False))
        bold = {BOLD: row.line.bold} if key == LOCAL_TEST else {}
        told[key] = {name: _known(value) for name, value in of.items()} | bold
    difference = {name: _known(value) for name, value in numbers(row.line).items()}
    return told | {DIFFERENCE: None if row.line.against is None else difference}


def summary_json(table: Sequence[Compared]) -> str:
    """Of each trained method local and external test alone: few columns for `dvc exp show`."""
    trained = [row for row in table if not row.method.startswith(FEDHIP_PREFIX)]
    return json_text(
        {
            name: {row.method: _known(row.entries[test].mean) for row in trained}
            for name, test in (("trained", LOCAL_TEST), ("trained-external", EXTERNAL_TEST))
            if all(test in row.entries for row in trained)
        }
    )


def _known(value: int | float) -> int | float | None:
    return None if math.isnan(value) else round(value, DIGITS)


def rounds_of(path: Path, column: str) -> dict[int, float]:
    """A column of a run's rounds.csv by round, without its empty cells; nothing if it has none.

    Raises:
        InputError: the file is missing or of another form.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return {int(row["round"]): float(row[column]) for row in rows if row.get(column)}
    except OSError as error:
        raise InputError(f"{path} is missing: run `dvc repro`, which makes it.") from error
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise other_form(path, f"its columns 'round' and '{column}' are no numbers") from error
