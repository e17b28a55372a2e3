"""Commands of the documents, in blocks and in running text, are those that the programs know."""

import re

import pytest

from tests.docs.grammar import fault, key_fault, mention_fault, starts
from tests.docs.kinds import COMMANDS, kind
from tests.docs.pages import ALL, PAGES, named, spans
from tests.docs.shell import commands

SHELL = [block for block in ALL if kind(block) == COMMANDS]
LEFT_OUT = "…"  # what a reader fills in
CHANGE = re.compile(r"(?:-S|--set-param) '?([\w.-]+)=")
pages = pytest.mark.parametrize("page", PAGES, ids=named)


@pytest.mark.parametrize("block", SHELL, ids=lambda block: block.place)
def test_the_commands_of_a_block_are_known(block):
    assert [told for told in map(fault, _whole(block)) if told] == []


@pages
def test_the_commands_in_running_text_are_known(page):
    """The mere name of a command may stand for it there, without what it requires."""
    told = {span: _span_fault(span) for span in spans(page.read_text(encoding="utf-8"))}
    assert {span: one for span, one in told.items() if one} == {}


@pages
def test_keys_that_experiments_change_are_those_of_the_parameters(page):
    keys = CHANGE.findall(page.read_text(encoding="utf-8"))
    assert [told for told in map(key_fault, keys) if told] == []


def _whole(block):
    return ([word for word in words if word != LEFT_OUT] for words in commands(block.text))


def _span_fault(span):
    try:
        (words,) = commands(span)
    except ValueError:  # several commands, or quotes without an end: mathematics
        return ""
    if len(words) < 2 or not starts(words) or any("<" in word for word in words):
        return ""
    flags = [word for word in words if word.startswith("-") and word != "-m"]
    if LEFT_OUT in words or (not flags and len(words) <= 2 + words.count("-m")):
        return mention_fault([word for word in words if word not in {*flags, LEFT_OUT}])
    return fault(words)


@pytest.mark.parametrize(
    "text",
    [
        "pfl inspekt data/server.h5",
        "pfl inspect data/server.h5 --jason",
        "pfl predict photos",
        "pfl sweep personalize.alhpa",
        "python -m stages.nowhere",
        "python -m stages.gram --out x.h5",
        "python -m stages.extract --imagez data/images.h5",
        "python -m experiments.reproduction results.csv methods --sedes 0",
        "python -m experiments.reproduction results.csv metods --seeds 0",
        "python -m benchmarks.rounds --images many",
        "python -m pfl.flower simulate",
        "dvc reprro",
        "dvc repro --nothing",
        "dvc repro evaluat",
        "dvc repro train@fedperr-0",
        "dvc exp run -S personalize.famly=fedhip",
        "make reproo",
        "pip install -e '.[flowers]'",
        "pytest tests/nowhere.py",
        "flwr supernode regster a",
        "flower-supernode --superlnk here",
        "nothing --at all",
    ],
)
def test_a_wrong_command_is_found(text):
    (words,) = commands(text)
    assert fault(words)


def test_comments_variables_loops_and_continued_lines_are_no_commands():
    text = (
        "export A=b\nfor i in 1 2; do\n  A=1 x --y \\\n    \"p q\" &  # why\ndone; wait\n# z\nw ''"
    )
    assert list(commands(text)) == [["x", "--y", "p q"], ["w", ""]]


def test_of_a_dialogue_what_follows_the_prompt_is_the_command():
    assert list(commands("$ pfl verify\n   all is well\n$ pfl results")) == [
        ["pfl", "verify"],
        ["pfl", "results"],
    ]
