"""All methods side by side: means and standard deviations over seeds."""

import csv
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pfl.artifacts.csv import DIGITS, csv_text
from pfl.errors import InputError
from pfl.evaluation.metrics import (
    CLIENT_MEAN,
    EXTERNAL_EACH,
    EXTERNAL_TEST,
    GLOBAL_TEST,
    HEADS,
    LOCAL_TEST,
    MEAN_PROBABILITY,
    MEAN_SCORE,
    NEW_TEST,
    UPLOAD_BYTES,
    VALIDATION,
)
from pfl.report.json import load_report, number_at, other_form

# What is compared, and where a run's metrics.json has it.
MEASURES = {
    LOCAL_TEST: (LOCAL_TEST, "mean"),
    f"{LOCAL_TEST}:worst-decile": (LOCAL_TEST, "worst-decile"),
    GLOBAL_TEST: (GLOBAL_TEST, "mean"),
    NEW_TEST: (NEW_TEST, MEAN_PROBABILITY),
    f"{NEW_TEST}:mean-log-probability": (NEW_TEST, "mean-log-probability"),
    f"{NEW_TEST}:vote": (NEW_TEST, "vote"),
    f"{NEW_TEST}:weight-average": (NEW_TEST, "weight-average"),
    EXTERNAL_TEST: (EXTERNAL_TEST, MEAN_PROBABILITY),
    EXTERNAL_EACH: (EXTERNAL_TEST, CLIENT_MEAN),
    VALIDATION: (VALIDATION, "mean"),
    UPLOAD_BYTES: (UPLOAD_BYTES,),
}
# The same of FedHiP's heads, whose scores are no probabilities; see pfl/evaluation/ensemble.py.
FEDHIP = {
    LOCAL_TEST: ("mean",),
    f"{LOCAL_TEST}:worst-decile": ("worst-decile",),
    GLOBAL_TEST: (GLOBAL_TEST,),
    NEW_TEST: (NEW_TEST, MEAN_SCORE),
    f"{NEW_TEST}:vote": (NEW_TEST, "vote"),
    f"{NEW_TEST}:weight-average": (NEW_TEST, "weight-average"),
    EXTERNAL_TEST: (EXTERNAL_TEST, MEAN_SCORE),
    EXTERNAL_EACH: (EXTERNAL_TEST, CLIENT_MEAN),
}


@dataclass(frozen=True)
class Entry:
    """One measure of one method.

    Attributes:
        mean: over the runs in which it was measured, NaN if in none.
        std: sample standard deviation over them (divided by their number less one), NaN for one.
    """

    mean: float
    std: float


@dataclass(frozen=True)
class Compared:
    """One method.

    Attributes:
        method: its name; heads by gradients are ``heads:<name>``, FedHiP's ``fedhip:local`` and so
            on.
        seeds: runs behind each entry.
        entries: by the names of :data:`MEASURES`, those that some method has.
    """

    method: str
    seeds: int
    entries: Mapping[str, Entry]


def compare(runs: Mapping[str, Sequence[Path]], fedhip: Path) -> list[Compared]:
    """Gather ``metrics.json`` of each method's runs, and FedHiP's from ``fedhip``.

    Args:
        runs: by the name of the method, a folder for each seed.
        fedhip: FedHiP's folder.

    What no method has measured (an external test, a validation) is left out.

    Raises:
        InputError: a file is missing or of another form.
    """
    rows = [
        _compared(
            method,
            [_measured(folder / "metrics.json", (), MEASURES) for folder in folders],
        )
        for method, folders in runs.items()
    ]
    for head in HEADS:
        rows.append(
            _compared(f"fedhip:{head}", [_measured(fedhip / "metrics.json", (head,), FEDHIP)])
        )
    known = [name for name in MEASURES if any(not math.isnan(r.entries[name].mean) for r in rows)]
    return [replace(row, entries={name: row.entries[name] for name in known}) for row in rows]


def _measured(
    path: Path, part: tuple[str, ...], places: Mapping[str, tuple[str, ...]]
) -> dict[str, float]:
    """The measures that a file of a run has a number for, below the keys ``part``."""
    found = load_report(path)
    values = {name: number_at(path, found, (*part, *place)) for name, place in places.items()}
    return {name: value for name, value in values.items() if value is not None}


def _compared(method: str, runs: Sequence[Mapping[str, float]]) -> Compared:
    entries = {}
    for name in MEASURES:
        known = [run[name] for run in runs if name in run]
        entries[name] = Entry(
            mean=statistics.fmean(known) if known else math.nan,
            std=statistics.stdev(known) if len(known) > 1 else math.nan,
        )
    return Compared(method, len(runs), entries)


def run_folders(
    runs: Path, methods: Sequence[str], seeds: Sequence[int], prefix: str = ""
) -> dict[str, list[Path]]:
    """The folders ``runs/<method>/seed-<seed>``, by ``prefix`` and method."""
    return {
        f"{prefix}{method}": [runs / method / f"seed-{seed}" for seed in seeds]
        for method in methods
    }


def comparison_csv(table: Sequence[Compared]) -> str:
    """A line a method; a column for the mean and one for the deviation of each measure."""
    header = ["method", "seeds"]
    header += [name for measure in table[0].entries for name in (measure, f"{measure}:std")]
    return csv_text(
        header,
        (
            [row.method, row.seeds, *(x for e in row.entries.values() for x in (e.mean, e.std))]
            for row in table
        ),
    )


def comparison_json(table: Sequence[Compared]) -> str:
    """The same, by method and measure; what is unknown is null."""
    told = {
        row.method: {"seeds": row.seeds}
        | {name: {"mean": _known(e.mean), "std": _known(e.std)} for name, e in row.entries.items()}
        for row in table
    }
    return json.dumps(told, indent=2, allow_nan=False) + "\n"


def summary_json(table: Sequence[Compared]) -> str:
    """Of each trained method local and external test alone: few columns for `dvc exp show`."""
    trained = [row for row in table if not row.method.startswith("fedhip:")]
    told = {
        name: {row.method: _known(row.entries[test].mean) for row in trained}
        for name, test in (("trained", LOCAL_TEST), ("trained-external", EXTERNAL_TEST))
        if all(test in row.entries for row in trained)
    }
    return json.dumps(told, indent=2, allow_nan=False) + "\n"


def _known(value: float) -> float | None:
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
