"""The table of packages in docs/architecture.md, made from the first lines of their docstrings.

    python -m tests.house.packages

A test compares the two, so that the table cannot go stale.
"""

import ast
import re

from tests.house.closure import modules
from tests.workspace import ROOT

PAGE = ROOT / "docs" / "architecture.md"
BEGIN = "<!-- made by `python -m tests.house.packages`; do not edit -->\n\n"
END = "\n<!-- end -->\n"


def table():
    """A row for each package: its path, and the first line of its docstring."""
    rows = ["| package | what lives there |", "|---|---|"]
    for _, path in modules():
        if path.name == "__init__.py":
            line = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).splitlines()[0]
            name = path.parent.relative_to(ROOT).as_posix()
            rows.append(f"| `{name}/` | {line.replace('``', '`').replace('|', chr(92) + '|')} |")
    return "\n".join(rows) + "\n"


def page(text):
    """The page with a fresh table."""
    marked = re.escape(BEGIN) + ".*?" + re.escape(END)
    return re.sub(marked, lambda _: BEGIN + table() + END, text, count=1, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
