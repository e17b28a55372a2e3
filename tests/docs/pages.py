"""The code of the documents: blocks, fenced or indented, and what stands between backticks.

A block says by itself what it is, or a comment before it, which no reader sees, says so:

    <!-- not run: it takes an hour -->      commands, or Python, that the tests only parse
    <!-- shown: a formula -->               no code at all
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.workspace import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "data").glob("*/README.md")),
]
MARK = re.compile(r"<!-- (not run|shown): (.+) -->")
FENCE = re.compile(r" *```(\w*)$")
INDENT = " " * 4
SPAN = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")


@dataclass(frozen=True)
class Block:
    """Code of a page: where it is, its language if it is fenced, its text, and its mark."""

    place: str
    language: str
    text: str
    mark: str = ""
    reason: str = ""


def blocks(text: str, name: str = "page") -> Iterator[Block]:
    """All blocks of a page, in order."""
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        begin = number
        if fence := FENCE.fullmatch(lines[number]):
            number = lines.index(fence[0].removesuffix(fence[1]), number + 1) + 1
            inner = lines[begin + 1 : number - 1]
        elif lines[number].startswith(INDENT) and not lines[number - 1]:
            while number < len(lines) and (lines[number].startswith(INDENT) or not lines[number]):
                number += 1
            inner = lines[begin:number]
        else:
            number += 1
            continue
        mark = MARK.fullmatch("\n".join(lines[:begin]).rstrip().rpartition("\n")[2])
        yield Block(
            f"{name}:{begin + 1}",
            fence[1] if fence else "",
            _dedent(inner),
            *(mark.groups() if mark else ()),
        )


def _dedent(lines: list[str]) -> str:
    margin = min(len(line) - len(line.lstrip()) for line in lines if line)
    return "\n".join(line[margin:] for line in lines).strip("\n")


def spans(text: str) -> Iterator[str]:
    """What stands between backticks in running text, on one line."""
    code = {line for block in blocks(text) for line in block.text.split("\n")}
    prose = "\n".join(line for line in text.split("\n") if line.strip() not in code)
    yield from (" ".join(span.split()) for span in SPAN.findall(prose))


def named(path: Path) -> str:
    """A page's name, as the tests tell it."""
    return str(path.relative_to(ROOT))


ALL = [block for page in PAGES for block in blocks(page.read_text(encoding="utf-8"), named(page))]
