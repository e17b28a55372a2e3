"""Results that add up: a CSV file that gets a line as soon as a run has ended."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO


def lines(path: Path) -> list[dict[str, str]]:
    """What is there, each line by the names of its columns; nothing if there is no file yet."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def add(path: Path, columns: Sequence[str], row: Mapping[str, object]) -> None:
    """Append a line; what ``row`` has beside the columns is left out.

    A file that lacks some of the columns gets them, empty in its earlier lines.
    """
    with path.open("a+", newline="") as file:
        file.seek(0)
        known = next(csv.reader(file), [])
    if not set(columns) <= set(known):
        _rewrite(path, [*known, *(name for name in columns if name not in known)])
    with path.open(newline="") as file:
        header = next(csv.reader(file))
    with path.open("a", newline="") as file:
        _writer(file, header).writerow(row)


def _rewrite(path: Path, columns: Sequence[str]) -> None:
    """The same lines under these columns; whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    with part.open("w", newline="") as file:
        writer = _writer(file, columns)
        writer.writeheader()
        writer.writerows(lines(path))
    part.replace(path)


def _writer(file: TextIO, columns: Sequence[str]) -> "csv.DictWriter[str]":
    return csv.DictWriter(file, columns, extrasaction="ignore", restval="", lineterminator="\n")
