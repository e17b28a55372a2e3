"""Figures as part of a page: SVG in its text."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from markupsafe import Markup, escape

from pfl.errors import InputError

IDENTIFIER = re.compile(r'(\bid="|url\(#|href="#)([^")]+)')

WIDTH = re.compile(r' width="([0-9.]+pt)"')


@dataclass(frozen=True)
class Figure:
    """A drawing as HTML, with ``alt`` in it for those who do not see it, and how to read it."""

    kind: ClassVar[str] = "figure"
    markup: Markup
    alt: str
    caption: str


def load_figure(path: Path, alt: str, caption: str) -> Figure:
    """The figure that a stage drew as the SVG file ``path``.

    Raises:
        InputError: the file is missing.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path} is missing ({error}): run `dvc repro`, which makes it."
        ) from error
    return Figure(_inline(text, path.stem, alt), alt, caption)


def _inline(text: str, name: str, alt: str) -> Markup:
    """SVG for the middle of a page: named, as wide as its place allows, its own identifiers."""
    text = IDENTIFIER.sub(lambda found: f"{found[1]}{name}-{found[2]}", text)
    start = text.index("<svg")
    opening, rest = text[start:].split(">", 1)
    width = WIDTH.search(opening)
    opening = re.sub(r' (?:width|height|xmlns:xlink|xmlns|version)="[^"]*"', "", opening)
    label = f' role="img" aria-labelledby="{name}-alt"'
    label += f' style="max-width: {width[1]}"' if width else ""
    title = f'<title id="{name}-alt">{escape(alt)}</title>'
    # An SVG file of this project: matplotlib has escaped what is in it.
    return Markup(f"{opening}{label}>{title}{rest.replace('xlink:href', 'href')}")
