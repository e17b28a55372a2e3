"""The JSON files of reports: written in one way, and numbers from them, checked on the way."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pfl.errors import InputError


def json_text(values: Mapping[str, object]) -> str:
    """The text of a report's file; values that JSON has not, as NaN, are refused."""
    return json.dumps(values, indent=2, allow_nan=False) + "\n"


def load_report(path: Path) -> dict[str, Any]:
    """What a report's file holds by name.

    Raises:
        InputError: it is missing, damaged, or holds something else.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} is missing or damaged ({error}): run `dvc repro`, which makes it."
        ) from error
    if not isinstance(values, dict):
        raise other_form(path, "it does not hold values by name")
    return values


def number_at(path: Path, found: object, place: Sequence[str]) -> float | None:
    """The number at a place in what ``path`` held; None if null stands there, or above it.

    Raises:
        InputError: there is no such place, or something else.
    """
    for depth, key in enumerate(place, start=1):
        if found is None:
            return None
        if not isinstance(found, dict) or key not in found:
            raise other_form(path, f"it has no '{'.'.join(place[:depth])}'")
        found = found[key]
    if isinstance(found, bool) or not isinstance(found, int | float | None):
        raise other_form(path, f"its '{'.'.join(place)}' is no number")
    return None if found is None else float(found)


def other_form(path: Path, what: str) -> InputError:
    """The error that ``path`` is not as this program writes it."""
    return InputError(
        f"{path} is of another form, {what}: delete it and run `dvc repro`, which makes it again."
    )
