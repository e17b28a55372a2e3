"""Names that nobody knows, and the nearest ones that somebody does."""

from collections.abc import Collection, Iterator
from difflib import get_close_matches

from pfl.cli.parameters.document import Entry, Finding


def unknown(section: str, entry: Entry, known: Collection[str]) -> Iterator[Finding]:
    """Keys of a section that nobody reads, each with the nearest that somebody does."""
    for name, below in entry.value.items():
        if name not in known:
            key = f"{section}.{name}" if section else name
            what = f"no key of the section {section}" if section else "no section"
            yield Finding(key, below.line, f"{key} is {what}: {nearest(name, known)}.")


def nearest(name: str, known: Collection[str]) -> str:
    """What to write in place of a name that is unknown."""
    close = get_close_matches(name, known, 1)
    if close:
        return f"write {close[0]}, the nearest, or remove it"
    return f"remove it, or write one of {', '.join(known)}" if known else "remove it"
