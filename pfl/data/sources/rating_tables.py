"""Tables of ratings: from a CSV file to user, image and score of each line.

The first line names the columns. Capitals, spaces and marks in the names do not matter, and other
columns are ignored. Commas, semicolons and tabs separate cells, whichever the first line has most
of, or what Excel's line ``sep=`` before it says; blank lines are skipped.
"""

import csv
import io
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pfl.errors import InputError

log = logging.getLogger(__name__)

SEPARATORS = ",;\t"
NAMES = {
    "user": ("user", "userid", "username", "worker", "workerid", "rater", "annotator", "subject"),
    "image": ("image", "imagepair", "imagename", "imagefile", "imagepath", "filename", "file"),
    "score": ("score", "rating", "userscore", "label"),
}
ANNOUNCED = re.compile(r'"?sep=([^"])"?')  # a line that Excel reads before the first
WHOLE = re.compile(r"[+-]?[0-9]{1,9}(\.0*)?")  # 3, -1, 4.0


@dataclass(frozen=True)
class Line:
    """One rating as its table has it.

    Attributes:
        place: the table and the number of the line, for messages.
        user: who, or empty where the table has no column of users.
        image: as it is called.
        score: a whole number.
    """

    place: str
    user: str
    image: str
    score: int


def read_table(path: Path) -> list[Line]:
    """The ratings of a table, in its order.

    Raises:
        InputError: it is no such table, or a line has no whole score or lacks a cell.
    """
    rows = _rows(path, _text(path))
    number, header = next(rows, (1, []))
    column = _columns(f"{path}, line {number}", header)
    return [_line(f"{path}, line {number}", header, row, column) for number, row in rows]


def _text(path: Path) -> str:
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _no_text(path, data, error.start) from error
    if "\0" in text:  # as UTF-16 has
        raise _no_text(path, data, data.index(b"\0"))
    return text


def _no_text(path: Path, data: bytes, position: int) -> InputError:
    line = data.count(b"\n", 0, position) + 1
    return InputError(f"{path}, line {line}: this is not UTF-8: save the table as CSV in UTF-8.")


def _rows(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the stripped cells of each line that is not blank."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    announced = ANNOUNCED.fullmatch(first)
    separator = announced[1] if announced else max(SEPARATORS, key=first.count)
    stream = io.StringIO(text, newline="")
    reader = csv.reader(stream, delimiter=separator, skipinitialspace=True, strict=True)
    blank: list[int] = []
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                if announced is None:
                    yield reader.line_num, cells
                announced = None
            else:
                blank.append(reader.line_num)
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}: this cannot be read as CSV ({error}): mend the line."
        ) from error
    if blank:
        log.info("Skipped %d blank line(s) of %s, the first line %d.", len(blank), path, blank[0])


def _columns(place: str, header: Sequence[str]) -> dict[str, int]:
    """Where user, if anywhere, image and score stand."""
    plain = [re.sub(r"[^a-z0-9]", "", name.lower()) for name in header]
    column: dict[str, int] = {}
    for role, names in NAMES.items():
        matches = [number for number, name in enumerate(plain) if name in names]
        if len(matches) > 1:
            both = " and ".join(f"'{header[number]}'" for number in matches)
            raise InputError(f"{place}: {both} both name the {role}: rename one of them.")
        if matches:
            column[role] = matches[0]
        elif role != "user":
            raise InputError(
                f"{place}: no column of these names the {role}: {', '.join(header) or 'none'}. "
                f"Call it one of {', '.join(names)}."
            )
    return column


def _line(place: str, header: Sequence[str], row: Sequence[str], column: dict[str, int]) -> Line:
    if len(row) < len(header) or any(row[len(header) :]):
        raise InputError(
            f"{place}: there are {len(row)} cells where the first line names {len(header)}: give "
            "each column one, with quotes around what holds a separator."
        )
    cells = {role: row[number] for role, number in column.items()}
    for role, cell in cells.items():
        if not cell:
            raise InputError(f"{place}: the {role} is missing: fill it in, or remove the line.")
    score = cells["score"]
    if not WHOLE.fullmatch(score):
        raise InputError(
            f"{place}: the score '{score}' is no whole number of up to nine digits, and each score "
            "is a class: round the scores, or number their steps."
        )
    return Line(place, cells.get("user", ""), cells["image"], int(score.partition(".")[0]))
