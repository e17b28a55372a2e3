"""What the documents say of the source is there: files, modules, names in them, and the table."""

import ast
import re
from functools import cache

import pytest

from tests.house.packages import BEGIN, END, PAGE, page
from tests.workspace import ROOT

PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
FOLDERS = "pfl|stages|tests|benchmarks|experiments|flower"
PATH = re.compile(rf"(?:(?<![\w/.@-])|(?<=\.\./))(?:docs|{FOLDERS})/[\w./*-]*[\w*/]")
DOTTED = re.compile(r"(?<![\w/.@-])(?:pfl|stages|tests|benchmarks|experiments)(?:\.\w+)+")
FILE = re.compile(r"`(\w+\.py)`")
LINK = re.compile(r"\]\(([\w./-]+)(?:#[\w-]*)?\)")


def sources():
    return (path for folder in FOLDERS.split("|") for path in (ROOT / folder).rglob("*.py"))


@cache
def names(path):
    """What a module defines or imports at its top level."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def exists(dotted):
    """Whether a dotted name is a package, a module, or a name in a module."""
    base = ROOT.joinpath(*dotted.split("."))
    if base.is_dir() or base.with_suffix(".py").is_file():
        return True
    module = base.parent.with_suffix(".py")
    return module.is_file() and base.name in names(module)


def missing(text):
    """Paths, dotted names and file names in a text that are nowhere."""
    files = {path.name for path in sources()}
    yield from (path for path in PATH.findall(text) if not any(ROOT.glob(path)))
    yield from (name for name in DOTTED.findall(text) if not exists(name))
    yield from (name for name in FILE.findall(text) if name not in files)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_what_a_page_names_is_there(path):
    assert list(missing(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_to_files(path):
    targets = LINK.findall(path.read_text(encoding="utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize(
    "text",
    [
        "see `pfl/nowhere.py`.",
        "[test](../tests/test_nowhere_*.py)",
        "`python -m benchmarks.nowhere`",
        "`pfl.fedhip.closed_form.nowhere`",
        "`nowhere.py`",
    ],
)
def test_what_is_not_there_is_found(text):
    assert len(list(missing(text))) == 1


def test_the_table_of_packages_is_that_of_their_docstrings():
    text = PAGE.read_text(encoding="utf-8")
    assert BEGIN in text
    assert END in text
    assert page(text) == text, "run python -m tests.house.packages"
