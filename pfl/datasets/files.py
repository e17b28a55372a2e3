"""The files of a data folder, by names that do not depend on where it lies."""

import os
from collections.abc import Iterator
from pathlib import Path

from pfl.errors import InputError


def walk(root: Path, deepest: int, layouts: str) -> Iterator[str]:
    """Yield the files below ``root`` as relative names, in code-point order of their parts.

    Args:
        root: a folder.
        deepest: parts that a name has at most; also ends a walk round a loop of links.
        layouts: how files may lie, for the message.

    Raises:
        InputError: a file lies too deep, is no regular one, or a link leads out of the folder.
    """
    home = root.resolve()

    def visit(folder: Path, prefix: str, depth: int) -> Iterator[str]:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            name = prefix + entry.name
            if entry.name.startswith("."):
                continue
            if entry.is_symlink():
                _check_link(Path(entry.path), home)
            if not entry.is_dir():
                yield _usable(root, name)
            elif depth == deepest:
                raise InputError(f"{root / name} is too deep: images lie in {root} as {layouts}.")
            else:
                yield from visit(Path(entry.path), f"{name}/", depth + 1)

    return visit(root, "", 1)


def _check_link(link: Path, home: Path) -> None:
    target = link.resolve()
    if not target.is_relative_to(home):
        raise InputError(
            f"{link} links to {target}, outside the data folder, where changes go unnoticed: "
            "copy what it links to into the folder, or remove the link."
        )
    if not target.exists():
        raise InputError(f"{link} links to {target}, which does not exist: remove or mend it.")


def _usable(root: Path, name: str) -> str:
    if not (root / name).is_file():  # Reading a pipe could wait for ever.
        raise InputError(f"{root / name} is no regular file (a pipe, socket or device): remove it.")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{root} holds {name!r}, which is not UTF-8: rename it.") from error
    return name
