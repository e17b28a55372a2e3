"""What every command prints: one content, shown as tables or as JSON.

A content is names with values: a value alone, names with values again (a table of two columns), or
a list of rows that have the same names (a table with a heading). So both forms tell the same,
except that names with values within a row are too much for a table, and in JSON alone.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from pfl.report.measures import UNKNOWN

Content = Mapping[str, Any]


class Share(float):
    """A number of 0 … 1 that people read in percent; in JSON it stays what it is."""


class Points(float):
    """A difference of two shares, which people read in percentage points with its sign."""


class Change(float):
    """A difference of two other numbers, which people read with its sign."""


def show(content: Content, as_json: bool) -> None:
    """Print a content to standard output."""
    if as_json:
        print(json.dumps(_plain(content), indent=2, allow_nan=False))  # noqa: T201
        return
    console = Console()
    for number, part in enumerate(tables(content)):
        if number and part.box is None:
            console.print()  # Tables with a heading bring their own space.
        console.print(part)


def tables(content: Content) -> list[Table]:
    """A content's values that stand alone, then each of its parts, under its name."""
    alone = {name: value for name, value in content.items() if not _is_part(value)}
    parts = [(name, value) for name, value in content.items() if _is_part(value) and value]
    shown = [_pairs("", alone)] if alone else []
    for name, value in parts:
        title = name.replace("-", " ")
        shown.append(_pairs(title, value) if isinstance(value, Mapping) else _rows(title, value))
    return shown


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table whose first column is names and whose others are numbers."""
    made = Table(title=title, box=box.SIMPLE_HEAD)
    for number, heading in enumerate(columns):
        # Names stay whole on a narrow terminal; numbers are short enough anyway.
        made.add_column(heading, justify="right" if number else "left", no_wrap=number == 0)
    for row in rows:
        made.add_row(*row)
    return made


def fits(made: Table, columns: int) -> bool:
    """Whether a table needs no more than so many columns of a terminal."""
    wide = Console(width=10_000)
    return Measurement.get(wide, wide.options, made).maximum <= columns


def _is_part(value: object) -> bool:
    rows = isinstance(value, list) and all(isinstance(row, Mapping) for row in value)
    return isinstance(value, Mapping) or rows


def _pairs(title: str, values: Mapping[str, Any]) -> Table:
    made = Table(title=title or None, title_justify="left", box=None, show_header=False)
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in values.items():
        # Text, since brackets in the name of a file are no markup.
        made.add_row(Text(f"  {name}"), Text(text(value)))
    return made


def _rows(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    columns = [name for name, value in rows[0].items() if not isinstance(value, Mapping)]
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for number, name in enumerate(columns):
        words = any(isinstance(row[name], str) for row in rows)
        made.add_column(
            name, justify="left" if words else "right", no_wrap=number == 0, overflow="fold"
        )
    for row in rows:
        made.add_row(*(Text(text(row[name])) for name in columns))
    return made


def text(value: object) -> str:
    """A value as people read it: four digits of a number, percent of a share, – for nothing."""
    match value:
        case None:
            return UNKNOWN
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float() if math.isnan(value):
            return UNKNOWN
        case Share():
            return f"{100 * value:.1f} %"
        case Points():
            return f"{100 * value:+.1f}"
        case Change():
            return f"{value:+.3f}"
        case float():
            return f"{value:.4g}"
        case list() | tuple():
            return ", ".join(map(text, value))
        case _:
            return str(value)


def _plain(value: Any) -> Any:
    """The same for JSON, where what is not known is null."""
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
