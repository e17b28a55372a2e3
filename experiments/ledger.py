"""Results that add up: a CSV file that gets a line as soon as a run has ended."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path


def lines(path: Path) -> list[dict[str, str]]:
    """What is there, each line by the names of its columns; nothing if there is no file yet."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def add(path: Path, columns: Sequence[str], row: Mapping[str, object]) -> None:
    """Append a line; what ``row`` has beside the columns is left out."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)
