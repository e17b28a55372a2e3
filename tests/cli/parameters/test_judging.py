"""Every key of params.yaml with every kind of wrong value: a sentence, or the stage takes it so."""

import math
import re
import shlex
from functools import cache

import click
import pytest
from dvc.parsing.interpolate import to_str

from pfl.errors import InputError
from pfl.training.head_settings import head_settings, head_training
from pfl.training.methods.settings import method_settings
from tests.cli.parameters.cases import (
    DVC,
    FLAGGED,
    KEYS,
    TABLED,
    WRITTEN,
    document,
    findings,
    flag_of,
    one,
    pipeline,
    replaced,
)


def words(name, value):
    """What DVC makes of a value, as the shell splits it."""
    return shlex.split(to_str({name: value}, DVC))


def taken(key, value):
    """What the stage's own command makes of a value, the other flags being what they are."""
    return over_taken(flag_of(key)[0], value)


def over_taken(flag, value):
    """The same of a flag."""
    name = flag.option.opts[0].removeprefix("--")
    context = flag.command.make_context("stage", [*others(flag), *words(name, value)])
    return context.params[flag.option.name]


@cache
def others(flag):
    """The other flags that its stage needs: the real parameters', and any path for a file."""
    given, needed = [], [option for option in flag.command.params if option.required]
    for option in needed:
        name = option.opts[0].removeprefix("--")
        sections = [key for key, flags in pipeline().sections.items() if name in flags]
        if option is flag.option:
            continue
        value = document().value[sections[0]].plain if sections else "digits"
        for part in name.split(".") if sections else ():
            value = value[part]
        given += words(name, value if name != "run-seed" and name != "seed" else 0)
    return tuple(given)


def same(value, made):
    """Whether a stage's value is the one that is written, as number or as text."""
    if isinstance(value, list):
        return len(value) == len(made) and all(map(same, value, made))
    if isinstance(made, list | tuple):
        return len(made) == 1 and same(value, made[0])
    if isinstance(value, bool) or isinstance(made, bool):
        return value is made
    if isinstance(made, int | float):
        return float(made) == float(value)
    return str(made) == str(value)


def test_the_parameters_as_they_come_have_no_findings():
    assert len(FLAGGED) > 60
    assert len(TABLED) > 60
    for key in KEYS:
        value = document()
        for name in key.split("."):
            value = value.value[name]
        assert findings(key, value) == [], key


@pytest.mark.parametrize("key", FLAGGED)
def test_a_value_is_told_or_the_stage_takes_it_as_it_is_written(key):
    flag, over = flag_of(key)
    for text in WRITTEN.values():
        entry = one(text)
        found = findings(key, entry)
        if found:
            told(found, key, text, entry)
            assert over is not None or not wanted(flag, entry), text
            continue
        if over is None or flag is not over:
            assert same(entry.plain, taken(key, entry.plain)), text
        if over is not None:
            assert all(same(value.plain, over_taken(over, value.plain)) for value in entry.value)


def wanted(flag, entry):
    """Whether the stage would have taken as it is written what is refused.

    Never mind lists and blanks, of which DVC makes something else, and numbers and dates for a
    text, whose form it may lose.
    """
    value = entry.value
    if entry.is_list or entry.is_section or value is None:
        return False
    if flag.is_text and (not isinstance(value, str) or not value):
        return False
    try:
        made = over_taken(flag, value)
    except (click.ClickException, InputError):
        return False
    _, within = flag.number or (None, None)  # of which a stage may ask later
    return same(value, made) and (within is None or float(made) in within)


@pytest.mark.parametrize("key", TABLED)
def test_a_setting_is_told_or_taken_by_whoever_reads_it(key):
    section, name, *rest = key.split(".")
    whole = document().value[section].value[name]
    for text in WRITTEN.values():
        entry = one(text)
        found = findings(key, entry)
        changed = (replaced(whole, rest, entry) if rest else entry).plain
        try:
            if section == "train":
                method_settings(name, {} if changed is None else changed, key)
            else:
                chosen = head_settings(name, changed)
                head_training(chosen, 0, document().value["head-rounds"].plain)
                method_settings(chosen.method, chosen.settings, key)
        except (InputError, AttributeError, TypeError):
            assert found, text
            if "multiply" not in found[0].sentence:  # of two settings that do not go together
                told(found, key, text, entry)
        else:
            assert not found, text


def told(found, key, text, entry):
    """Sentences name the key, what is written, and what to do."""
    sentences = " ".join(finding.sentence for finding in found)
    assert key in sentences
    if not entry.is_section:  # which is told by what it is to hold
        holds = text or "blank"
        if entry.is_list and entry.value:
            holds = entry.value[0].text
        assert holds in sentences
    assert re.search("must be|must hold|must have|choose|write|remove", sentences)
    assert all(finding.line for finding in found)


def test_a_number_that_yaml_reads_otherwise_says_so():
    (finding,) = findings("partition.clients", one("1e5"))
    assert finding.sentence == (
        "partition.clients is 1e5, which YAML reads as 100000.0: it must be a whole number with "
        "1 ≤ x."
    )


def test_a_blank_name_says_what_is_empty():
    (finding,) = findings("partition.external-group", one(""))
    assert finding.sentence == (
        "partition.external-group is blank, of which DVC makes the word None: it must be text; '' "
        "is an empty one."
    )


def test_a_method_alone_is_to_be_a_list():
    (finding,) = findings("compare.methods", one("fedavg"))
    assert finding.sentence == "compare.methods is fedavg, no list: write [fedavg]."


def test_several_entries_are_each_told():
    found = findings("compare.seeds", one("[0, -1, two]"))
    assert [finding.sentence.partition(":")[0] for finding in found] == [
        "compare.seeds holds -1",
        "compare.seeds holds two",
    ]


@pytest.mark.parametrize("value", [True, False, 3, 0.5, 1e-7, math.inf, "a b", "", "-x", "'"])
def test_flags_are_those_that_dvc_makes(value):
    flag, _ = flag_of("prepare.sites")
    assert flag.words(value) == words("sites", value)
    assert flag.words([value, 1]) == words("sites", [value, 1])
    assert flag.words([]) == words("sites", [])
