"""All methods side by side: means and standard deviations over seeds."""

import csv
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfl.errors import InputError
from pfl.tables import DIGITS, csv_text

# What is compared, and where a run's metrics.json has it.
MEASURES = {
    "local-test": ("local-test", "mean"),
    "local-test:worst-decile": ("local-test", "worst-decile"),
    "new-test": ("new-test", "mean-probability"),
    "new-test:mean-log-probability": ("new-test", "mean-log-probability"),
    "new-test:vote": ("new-test", "vote"),
    "new-test:weight-average": ("new-test", "weight-average"),
    "new-test:single": ("new-test", "single"),
    "external-test": ("external-test", "mean-probability"),
    "validation": ("validation", "mean"),
    "upload-bytes": ("upload-bytes",),
}
# FedHiP has one model a client and no ensemble: its test on all samples is that of single models.
FEDHIP = {
    "local-test": ("mean",),
    "local-test:worst-decile": ("worst-decile",),
    "new-test:single": ("global-test",),
}
HEADS = ("local", "global", "personalized")


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
        method: its name; FedHiP's heads are ``fedhip:local`` and so on.
        seeds: runs behind each entry.
        entries: by the names of :data:`MEASURES`.
    """

    method: str
    seeds: int
    entries: Mapping[str, Entry]


def compare(
    runs: Path, methods: Sequence[str], seeds: Sequence[int], fedhip: Path
) -> list[Compared]:
    """Gather ``runs/<method>/seed-<seed>/metrics.json``, and FedHiP's from ``fedhip``.

    Raises:
        InputError: a file is missing or of another form.
    """
    table = []
    for method in methods:
        found = [_load(runs / method / f"seed-{seed}" / "metrics.json") for seed in seeds]
        table.append(_compared(method, found, MEASURES))
    closed = _load(fedhip / "metrics.json")
    return table + [_compared(f"fedhip:{head}", [closed[head]], FEDHIP) for head in HEADS]


def _load(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} is missing or damaged ({error}): run `dvc repro`, which makes it."
        ) from error
    return found


def _compared(
    method: str, runs: Sequence[dict[str, Any]], places: Mapping[str, tuple[str, ...]]
) -> Compared:
    entries = {}
    for name in MEASURES:
        values = [_at(run, places[name]) for run in runs] if name in places else []
        known = [value for value in values if value is not None]
        entries[name] = Entry(
            mean=statistics.fmean(known) if known else math.nan,
            std=statistics.stdev(known) if len(known) > 1 else math.nan,
        )
    return Compared(method, len(runs), entries)


def _at(run: Any, place: tuple[str, ...]) -> float | None:
    """The number at a place, None where the run did not measure it."""
    for key in place:
        run = None if run is None else run[key]
    return None if run is None else float(run)


def comparison_csv(table: Sequence[Compared]) -> str:
    """A line a method; a column for the mean and one for the deviation of each measure."""
    header = ["method", "seeds"]
    header += [name for measure in MEASURES for name in (measure, f"{measure}:std")]
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


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, DIGITS)


def rounds_of(path: Path, column: str) -> dict[int, float]:
    """A column of a run's rounds.csv by round, without its empty cells."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {int(row["round"]): float(row[column]) for row in rows if row.get(column)}
