"""What is wrong with values that the documents put into params.yaml."""

import copy
import re

from tests.docs.grammar import PARAMS, STAGES
from tests.docs.parsers import by_click, stage
from tests.workspace import flat

SECTION = re.compile(r"\$\{([a-z-]+)\}")
ITEM = re.compile(r"\$\{(item(?:\.\w+)?)\}")
NUMBER, DATA = (
    "0",
    "digits",
)  # in place of a method or a seed over which a stage is repeated; of data


def faults(values):
    """Keys that params.yaml lacks, and what the stages say of the values among the others."""
    unknown = [key for key, _ in flat(values) if not _known(key)]
    return unknown or [told for name in STAGES for told in [_refused(name, values)] if told]


def _known(key):
    """Whether a dotted name is in params.yaml."""
    section = PARAMS
    for name in key.split("."):
        if not isinstance(section, dict) or name not in section:
            return False
        section = section[name]
    return True


def _refused(name, values):
    """What a stage says of its flags as DVC would give them, or nothing if none has changed."""
    words = STAGES[name]["cmd"].split() if "cmd" in STAGES[name] else []
    sections = [found[1] for found in map(SECTION.fullmatch, words) if found]
    if not set(sections) & set(values):
        return ""
    merged = merge(copy.deepcopy(PARAMS), values)
    flags = [flag for word in words[3:] for flag in _flags(word, merged)]
    return by_click(stage(name), flags)


def merge(values, changes):
    """Values with changes, section by section."""
    for key, value in changes.items():
        inner = isinstance(value, dict) and isinstance(values.get(key), dict)
        values[key] = merge(values[key], value) if inner else value
    return values


def _flags(word, params):
    """Of a section all flags, as ``.dvc/config`` says that DVC writes them; else the word."""
    found = SECTION.fullmatch(word)
    if not found:
        yield ITEM.sub(lambda item: DATA if "data" in item[1] else NUMBER, word)
        return
    for key, value in flat(params[found[1]]):
        if isinstance(value, bool):
            yield f"--{key}" if value else f"--no-{key}"
            continue
        for one in value if isinstance(value, list) else [value]:
            yield f"--{key}"
            yield str(one)
