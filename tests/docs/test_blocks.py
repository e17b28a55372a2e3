"""Every block of the documents is something that a test looks at, or says why it is not."""

import re

import pytest

from tests.docs.kinds import COMMANDS, PYTHON, SETTINGS, SHOWN, kind
from tests.docs.pages import ALL, MARK, PAGES, Block, blocks, named
from tests.workspace import ROOT

TEST = re.compile(r"tests/[\w/]+\.py")
CODE = (COMMANDS, PYTHON)


@pytest.mark.parametrize("block", ALL, ids=lambda block: block.place)
def test_a_block_is_of_a_known_kind(block):
    """Commands, parameters or Python; anything else is marked: see tests/docs/pages.py."""
    assert kind(block) is not None, block.text


@pytest.mark.parametrize("block", [one for one in ALL if one.mark], ids=lambda block: block.place)
def test_a_mark_fits_its_block(block):
    assert (kind(block) in CODE) if block.mark == "not run" else (kind(block) == SHOWN)
    assert [path for path in TEST.findall(block.reason) if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_comment_is_a_mark_of_a_block(page):
    text = page.read_text(encoding="utf-8")
    generated = re.findall(r"^<!-- (?:made by .*|end) -->", text, re.MULTILINE)
    marked = [block for block in blocks(text) if block.mark]
    assert len(marked) + len(generated) == len(re.findall(r"^ *<!--", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pfl verify", COMMANDS),
        ("# why\nFOO=1 python -m stages.gram \\\n  --out x", COMMANDS),
        ("$ pfl results\n  local  94.7", COMMANDS),
        ("prepare: {dataset: npz, …}", SETTINGS),
        ("prepair: {dataset: npz}", None),
        ("plf verify", None),
        ("p ~ Dir(γ · 1_K)", None),
    ],
)
def test_a_block_says_what_it_is(text, expected):
    assert kind(Block("page:1", "", text)) == expected


def test_blocks_are_found_fenced_and_indented_with_their_marks():
    text = (
        "- item\n  more\n\n<!-- shown: a drawing -->\n\n    a ─► b\n\n      c\n\n"
        "no block:\n    x\n\n"
        "<!-- not run: why -->\n```python\nx = 1\n```\n\n  ```yaml\n  a: 1\n  ```\n"
    )
    found = [(one.place, one.language, one.text, one.mark) for one in blocks(text)]
    assert found == [
        ("page:6", "", "a ─► b\n\n  c", "shown"),
        ("page:14", "python", "x = 1", "not run"),
        ("page:18", "yaml", "a: 1", ""),
    ]
    assert MARK.fullmatch("<!-- not run: -->") is None
