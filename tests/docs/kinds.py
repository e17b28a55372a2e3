"""What a block of the documents is, by its language, its content and its mark."""

import yaml

from tests.docs.grammar import PARAMS, starts
from tests.docs.shell import commands

COMMANDS, SETTINGS, PYTHON, SHOWN = "commands", "settings", "python", "shown"


def kind(block):
    """Which of these a block is; None of one that is none and has no mark."""
    if block.language == "python":
        return PYTHON
    if block.language == "yaml" or _sections(block.text):
        return SETTINGS
    if _starts(block.text):
        return COMMANDS
    return SHOWN if block.mark == "shown" else None


def settings(text):
    """The values of a block of parameters; ``…`` stands for those that stay."""
    return yaml.safe_load(text.replace(", …", ""))


def _sections(text):
    try:
        values = settings(text)
    except yaml.YAMLError:
        return False
    return isinstance(values, dict) and set(values) <= set(PARAMS)


def _starts(text):
    try:
        return starts(next(commands(text), []))
    except ValueError:
        return False
