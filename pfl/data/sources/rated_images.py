"""Image files by what tables of ratings call them."""

import posixpath
from collections.abc import Iterable, Sequence

from pfl.data.sources.rating_tables import Line
from pfl.errors import InputError
from pfl.runtime.spelling import plain


class RatedImages:
    """The files of a folder, by their names below it, with ``/`` between parts."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._alike: dict[str, list[str]] = {}
        self._ends: dict[str, list[str]] = {}
        for name in sorted(self._names):
            self._alike.setdefault(plain(name), []).append(name)
            self._ends.setdefault(plain(posixpath.basename(name)), []).append(name)

    def __len__(self) -> int:
        """Count of files."""
        return len(self._names)

    def find(self, line: Line, folders: Iterable[str]) -> str | None:
        """The file of that path in one of ``folders``, else the only one that ends in it.

        A name to the byte goes before one whose accents are stored in another way.

        Raises:
            InputError: several files do.
        """
        called = posixpath.normpath(line.image.replace("\\", "/"))
        for folder in folders:
            path = posixpath.join(folder, called)
            if path in self._names:
                return path
            if alike := self._alike.get(plain(path)):
                return _only(line, alike)
        ends = self._ends.get(plain(posixpath.basename(called)), ())
        for spelled in (str, plain):
            tail = spelled(f"/{called}")
            if matches := [name for name in ends if spelled(f"/{name}").endswith(tail)]:
                return _only(line, matches)
        return None


def _only(line: Line, matches: Sequence[str]) -> str:
    if len(matches) == 1:
        return matches[0]
    one, two = matches[:2]
    if plain(one) == plain(two):
        raise InputError(
            f"{line.place}: '{line.image}' may be {one!a} or {two!a}, which differ only in how an "
            "accent is stored: remove one of them, or give it another name."
        )
    raise InputError(
        f"{line.place}: '{line.image}' may be {one} or {two}: name the image with its folder."
    )
