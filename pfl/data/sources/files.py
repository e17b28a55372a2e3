"""The files of a data folder, by names that do not depend on where it lies."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

from pfl.data.sources.links import check_link
from pfl.data.sources.names import some
from pfl.errors import InputError

log = logging.getLogger(__name__)

# Names of what systems leave among a user's own files, and that nobody means as data.
SYSTEMS = frozenset(
    {
        "$recycle.bin",  # Windows
        "desktop.ini",
        "system volume information",
        "thumbs.db",
        "icon\r",  # macOS
        "__macosx",
        "@eadir",  # network storage
        "#recycle",
        "lost+found",  # Linux
    }
)


def is_litter(name: str) -> bool:
    """Whether a file or folder of this name is hidden or a system's own."""
    return name.startswith(".") or name.casefold() in SYSTEMS


def walk(root: Path, deepest: int, layouts: str) -> list[str]:
    """The files below ``root`` as relative names, in code-point order of their parts.

    What systems leave in folders is passed over, and folders without files with a warning.
    A name has at most ``deepest`` parts, which also ends a walk round a loop of links; ``layouts``
    is how files may lie, for the message.

    Raises:
        InputError: a file lies too deep, is no regular one, or a link leads out of the folder.
    """
    home = root.resolve()
    empty: list[str] = []

    def visit(folder: Path, prefix: str, depth: int) -> Iterator[str]:
        with os.scandir(folder) as scan:
            entries = [entry for entry in scan if not is_litter(entry.name)]
        if not entries:
            empty.append(prefix)
        for entry in sorted(entries, key=lambda entry: entry.name):
            name = prefix + entry.name
            if entry.is_symlink():
                check_link(Path(entry.path), home)
            if not entry.is_dir():
                yield _usable(root, name)
            elif depth == deepest:
                raise InputError(f"{root / name} is too deep: images lie in {root} as {layouts}.")
            else:
                yield from visit(Path(entry.path), f"{name}/", depth + 1)

    names = list(visit(root, "", 1))
    if empty and names:
        log.warning("Skipped %d folder(s) without files in %s: %s.", len(empty), root, some(empty))
    return names


def _usable(root: Path, name: str) -> str:
    if not (root / name).is_file():  # Reading a pipe could wait for ever.
        raise InputError(f"{root / name} is no regular file (a pipe, socket or device): remove it.")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{root} holds {name!r}, which is not UTF-8: rename it.") from error
    return name
