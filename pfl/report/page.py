"""The page: sections of text, figures and tables, put into HTML that needs nothing but itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pfl.errors import InputError
from pfl.report.figure import Figure
from pfl.report.table import Table

TEMPLATES = Environment(
    loader=PackageLoader("pfl.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    keep_trailing_newline=True,
)


@dataclass(frozen=True)
class Listing:
    """Text to copy, under a title."""

    kind: ClassVar[str] = "listing"
    title: str
    text: str


@dataclass(frozen=True)
class Notes:
    """Lines in small print."""

    kind: ClassVar[str] = "notes"
    lines: Sequence[str]


@dataclass(frozen=True)
class Section:
    """A part of the page: its anchor and heading, paragraphs, and what follows them."""

    id: str
    title: str
    texts: Sequence[str]
    parts: Sequence[Figure | Table | Listing | Notes]


@dataclass(frozen=True)
class Page:
    """The whole page; ``numbers`` are names and values of what a reader wants to know first."""

    title: str
    subtitle: str
    numbers: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    footer: str


def render(page: Page) -> str:
    """The page as HTML: the same for the same content."""
    return TEMPLATES.get_template("page.html.jinja").render(page=page)


def insert(html: str, section: Section) -> str:
    """A page of :func:`render` with one more section before its last, and a link to it.

    Raises:
        InputError: ``html`` is no such page.
    """
    body = TEMPLATES.get_template("section.html.jinja").render(section=section)
    link = Markup('<li><a href="#{}">{}</a></li>').format(section.id, section.title)
    for before, new in (("<section ", f"{body}\n"), ("<li><a href=", f"{link}\n")):
        head, found, last = html.rpartition(before)
        if not found:
            raise InputError("The report is of another form: run `dvc repro`, which makes it.")
        html = f"{head}{new}{found}{last}"
    return html
