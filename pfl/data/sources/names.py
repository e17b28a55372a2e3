"""Names of classes and groups: what no table, figure or file could hold, and what misleads."""

import logging
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from pfl.errors import InputError, printable
from pfl.runtime.spelling import plain

log = logging.getLogger(__name__)
# Control characters and separators of lines and paragraphs: they break tables and figures.
BREAKING = {"Cc", "Zl", "Zp"}
SHOWN = 3  # names in a warning


def some(names: Sequence[str]) -> str:
    """The first few names, for a message."""
    return printable(", ".join(names[:SHOWN])) + (", …" if len(names) > SHOWN else "")


def check_names(path: Path, names: Sequence[str]) -> None:
    """Refuse names of classes or groups that are empty or no text on one line.

    Raises:
        InputError: there is one.
    """
    for name in names:
        if not name:
            raise InputError(f"{path} has a class or group without a name: give it one.")
        try:
            name.encode()
        except UnicodeEncodeError as error:  # half of a UTF-16 pair
            raise InputError(
                f"{path} names a class or group {name!r}, which cannot be encoded: rename it."
            ) from error
        if any(unicodedata.category(character) in BREAKING for character in name):
            raise InputError(
                f"{path} names a class or group {name!r}, which holds a line break or another "
                "control character: rename it."
            )


def warn_of_twins(path: Path, names: Sequence[str]) -> None:
    """Warn of names that differ in case or spaces around them alone.

    They count as different, but are often one that two systems wrote differently.
    """
    seen: dict[str, str] = {}
    twins = []
    for name in names:
        first = seen.setdefault(plain(plain(name).casefold()).strip(), name)
        if first != name:
            twins.append(f"{first!a} and {name!a}")
    if twins:
        log.warning(
            "Names in %s that look alike count as different: %s. Rename one of each if they are "
            "the same.", path, some(twins),
        )  # fmt: skip
