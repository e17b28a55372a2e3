"""Names that are the same text, however a system stores their accents.

Most systems store é as one character (NFC); macOS, and archives that were packed there, as a letter
and an accent (NFD). Nobody sees or types the difference, so that names which users compare by eye
are compared by this module. Capitals and spaces are seen, and do count.

Source: Unicode Standard Annex 15, "Unicode Normalization Forms".
"""

import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path


def plain(name: str) -> str:
    """The name with accents stored in the one way (NFC) that all others are compared in."""
    return unicodedata.normalize("NFC", name)


def find_name(name: str, names: Iterable[str]) -> str | None:
    """The one of ``names`` that is ``name`` to the byte, else the only one that is so in NFC."""
    listed = list(names)
    if name in listed:
        return name
    alike = [other for other in listed if plain(other) == plain(name)]
    return alike[0] if len(alike) == 1 else None


def united(names: Sequence[str]) -> list[str]:
    """The names in their order, with those that are stored in several ways in NFC.

    A name that is stored in one way only stays as it is.
    """
    distinct = set(names)
    ways: dict[str, int] = {}
    for name in distinct:
        ways[plain(name)] = ways.get(plain(name), 0) + 1
    one = {name: plain(name) if ways[plain(name)] > 1 else name for name in distinct}
    return [one[name] for name in names]


def existing(path: Path) -> Path:
    """The path, or the only one beside it of the same name where there is none to the byte."""
    if path.exists() or not path.parent.is_dir():
        return path
    found = find_name(path.name, (entry.name for entry in path.parent.iterdir()))
    return path if found is None else path.parent / found
