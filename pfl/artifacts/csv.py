"""Small tables for people, as CSV text."""

import csv
import io
import math
from collections.abc import Iterable, Sequence

DIGITS = 6


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """CSV with Unix line ends; floats have six digits after the point, NaN is an empty cell."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return stream.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.{DIGITS}f}"
    return value
