"""Tables of the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Cell:
    """What stands in a table, and whether it is the best of its column."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under as many headings as each has cells; the first cell of a row is its name.

    A table that is ``folded`` opens on a click on that text. One of ``words`` is aligned to the
    left, others hold numbers.
    """

    kind: ClassVar[str] = "table"
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    folded: str = ""
    words: bool = False


def plain(
    caption: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    folded: str = "",
    words: bool = False,
) -> Table:
    """A table in which nothing is marked."""
    return Table(caption, columns, [[Cell(text) for text in row] for row in rows], folded, words)
