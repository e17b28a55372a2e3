"""Which class shares the scores are for: the client's own, even ones, those of a file, or by EM.

A file of shares has one for each class: JSON, an object of names, or CSV, lines of a name and a
number, perhaps below a line of headings. Numbers that add up to 1 are shares; whole numbers are
counts, which are divided by their sum.
"""

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from pfl.cli.deployment.head import CalibratedHead
from pfl.errors import InputError, one_line
from pfl.evaluation.metrics import HeadKind

OWN, UNIFORM, EM = "own", "uniform", "em"
EVERYBODY = "everybody"  # how the own prior of the global head is called
CLOSE = 0.01  # to 1, that shares must add up to, as people round them
LARGEST = 1 << 24  # bytes of a file of shares


def own_name(kind: HeadKind) -> str:
    """What the class shares are called that a head's scores are for as they are."""
    return EVERYBODY if kind is HeadKind.shared else OWN


def with_prior(
    head: CalibratedHead, kind: HeadKind, wanted: str, classes: Sequence[str]
) -> tuple[CalibratedHead, str]:
    """The head for the wanted class shares, and what these are called in what people read.

    For EM, which needs the images' scores under the head's own prior first, the head stays as it
    is.

    Raises:
        InputError: the head counts no class prior, or the file of shares cannot be used.
    """
    if wanted == OWN:
        return head, own_name(kind)
    if head.prior == 0.0:
        raise InputError(
            f"The {kind.value} head counts no class prior apart from its weights, so that --prior "
            f"{wanted} has nothing to take the place of: take another --head."
        )
    if wanted == EM:
        return head, EM
    even = np.full(len(classes), 1.0 / len(classes))
    shares = even if wanted == UNIFORM else read_shares(Path(wanted), classes)
    return head.with_shares(shares), wanted


def read_shares(path: Path, classes: Sequence[str]) -> Float[np.ndarray, " d"]:
    """Class shares of a file, in the order of ``classes``; they add up to 1.

    Raises:
        InputError: it is missing or of another form; a class is unknown, missing or there twice; or
            the numbers are neither shares nor counts.
    """
    found = _numbers(path)
    for problem, names in (
        (
            "names classes that the data do not have",
            [name for name in found if name not in classes],
        ),
        ("lacks classes", [name for name in classes if name not in found]),
    ):
        if names:
            raise _unusable(path, f"it {problem} ({_some(names)})", "give each class one number")
    values = np.array([found[name] for name in classes])
    if not np.isfinite(values).all() or (values < 0).any() or not values.any():
        raise _unusable(
            path, "its numbers are not all finite and at least 0, or all are 0", "mend them"
        )
    total = float(values.sum())
    counts = bool((values == np.floor(values)).all())
    if not counts and abs(total - 1.0) > CLOSE:
        raise _unusable(
            path, f"its numbers add up to {total:.4g}", "give shares that add up to 1, or counts"
        )
    return values / total


def _numbers(path: Path) -> dict[str, float]:
    """Numbers by the names of classes, from JSON where the first character opens an object."""
    if not path.is_file():
        raise _unusable(
            path, "which is no file", "take a word, own, uniform or em, or a file of shares"
        )
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it has more than {LARGEST:,} bytes")
        text = path.read_text(encoding="utf-8-sig")
        rows = _json_rows(text) if text.lstrip()[:1] == "{" else _csv_rows(text)
        return _by_name(rows)
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        remedy = "give a JSON object, or CSV lines, of a name and a number for each class"
        raise _unusable(path, one_line(error, 200), remedy) from error


def _json_rows(text: str) -> list[tuple[str, float]]:
    pairs: list[list[tuple[str, object]]] = []

    def keep(found: list[tuple[str, object]]) -> Mapping[str, object]:
        pairs.append(found)
        return {}

    json.loads(text, object_pairs_hook=keep)
    rows = []
    for name, value in pairs[-1]:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{name!r} has no number")
        rows.append((name, float(value)))
    return rows


def _csv_rows(text: str) -> list[tuple[str, float]]:
    lines = [line for line in csv.reader(text.splitlines()) if line]
    if any(len(line) != 2 for line in lines):
        raise ValueError("a line has not a name and a number alone")
    if lines and _number(lines[0][1]) is None:
        lines = lines[1:]
    rows = []
    for name, value in lines:
        number = _number(value)
        if number is None:
            raise ValueError(f"{name!r} has no number")
        rows.append((name.strip(), number))
    return rows


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _by_name(rows: Iterable[tuple[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in rows:
        if name in found:
            raise ValueError(f"{name!r} is there twice")
        found[name] = value if math.isfinite(value) else math.nan
    return found


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def _unusable(path: Path, cause: str, remedy: str) -> InputError:
    return InputError(f"Class shares cannot be read from {path}, {cause}: {remedy}.")
