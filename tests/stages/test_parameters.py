"""The page of parameters says what the stages say."""

from stages._parameters import comments, flatten, page
from tests.workspace import ROOT


def test_the_page_is_up_to_date():
    told = (ROOT / "docs" / "parameters.md").read_text(encoding="utf-8")
    remedy = "run python -m stages._parameters > docs/parameters.md"
    assert told == page(ROOT / "params.yaml"), remedy


def test_every_parameter_is_on_the_page_and_means_something():
    rows = [line for line in page(ROOT / "params.yaml").splitlines() if line.startswith("| `")]
    assert len(rows) > 60
    assert all(row.split(" | ")[-1].strip(" |") for row in rows), rows


def test_names_are_flattened_with_dots():
    assert flatten({"a": 1, "b": {"c": 2, "d": {"e": [3]}}}) == {"a": 1, "b.c": 2, "b.d.e": [3]}


def test_comments_belong_to_the_value_before_them():
    text = "a: # section\n  b: 1 # one\n  c:\n    d: x # two\ne: 2\n# alone\n"
    assert comments(text) == {"a": "section", "a.b": "one", "a.c": "", "a.c.d": "two", "e": ""}
