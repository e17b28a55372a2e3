"""Whether a stage takes a value as it is written, and if not, a sentence on it.

The stage's parser judges, but for what it does not see: DVC makes a blank the text None; a list the
flags of its entries, of which a stage that wants one value takes the last; and a number or date, as
YAML reads it, the value of a flag that wants text.
"""

from collections.abc import Iterator
from typing import Any

from pfl.cli.parameters.document import BLANK, Entry, Finding
from pfl.cli.parameters.flags import Flag
from pfl.errors import InputError

WORDS = {"yes", "no", "on", "off", "y", "n"}  # that YAML 1.1 took for true and false

AS_NONE = ", of which DVC makes the word None"


def judged(flag: Flag, entry: Entry, over: Flag | None = None) -> Iterator[Finding]:
    """What is wrong with the value of a flag; ``over`` gets each entry, where a matrix has them."""
    for key, told in _problems(flag, entry, over):
        yield Finding(flag.key, (key or entry).line, told)


def _problems(flag: Flag, entry: Entry, over: Flag | None) -> Iterator[tuple[Entry | None, str]]:
    several = flag.is_list or over is not None
    if entry.is_section:
        yield None, f"{flag.key} is a section, {entry.text}: {must(flag, several)}"
    elif entry.is_list and not several:
        yield None, f"{flag.key} is a list, {entry.text}: {must(flag)}"
    elif entry.is_list:
        yield from _entries(flag, entry, over)
    elif several and entry.value is None:
        yield (
            None,
            f"{flag.key} is {shown(entry)}{AS_NONE}: {must(flag, several)} [] is an empty one.",
        )
    elif over is not None:
        yield None, f"{flag.key} is {shown(entry)}, no list: write [{entry.text}]."
    elif (tail := remedy(flag, entry)) is not None:
        made = AS_NONE if entry.value is None else ""
        yield None, f"{flag.key} is {shown(entry)}{made}: {tail}"


def _entries(flag: Flag, entry: Entry, over: Flag | None) -> Iterator[tuple[Entry | None, str]]:
    """What is wrong with the entries of a list, or with its being empty."""
    judges = [one for one in (flag, over) if one is not None]
    for one in entry.value:
        tails = [remedy(judge, one) for judge in judges]
        tail = next((tail for tail in tails if tail is not None), None)
        if tail is not None:
            yield one, f"{flag.key} holds {shown(one)}: {tail}"
    if not entry.value and flag.is_list and flag.refusal([]) is not None:
        yield None, f"{flag.key} is empty, []: it must have one entry at least."


def must(flag: Flag, several: bool = False) -> str:
    """The end of a sentence, what a value must be: of a rule of its own, in the rule's words."""
    if several:
        return f"it must be a list, each entry {flag.may_be}."
    refusal = flag.refusal("")
    if isinstance(refusal, InputError):
        return str(refusal).partition(": ")[2]
    return f"it must be {flag.may_be}."


def remedy(flag: Flag, entry: Entry) -> str | None:
    """The end of a sentence on one value, what it may be; None if the stage takes it."""
    value = entry.value
    if entry.is_section or entry.is_list:
        return must(flag)
    if flag.is_text:
        return _of_text(flag, entry)
    if value is not None and isinstance(value, bool) != flag.is_switch:
        return must(flag)
    refusal = flag.refusal([value] if flag.is_list else value)
    if isinstance(refusal, InputError):
        return str(refusal).partition(": ")[2]
    wrong = refusal is not None or value is None or _outside(flag, value)
    return must(flag) if wrong else None


def _of_text(flag: Flag, entry: Entry) -> str | None:
    """The same of a flag that takes any text."""
    if entry.value is None:
        return "it must be text; '' is an empty one."
    if not isinstance(entry.value, str):
        return f"it must be text, so write it in quotes, '{entry.text}'."
    if not entry.value and flag.is_path:
        return "it must be the path of a file or folder."
    refusal = flag.refusal([entry.value] if flag.is_list else entry.value)
    return None if refusal is None else "it must be text."


def _outside(flag: Flag, value: Any) -> bool:
    """Whether a number that the parser takes is out of the range that the stage then asks for."""
    _, within = flag.number or (None, None)
    return within is not None and float(value) not in within


def shown(entry: Entry) -> str:
    """A value as it is written, and as what YAML reads it where that is something else."""
    text, value = entry.text, entry.value
    if value is None:
        return BLANK if text == BLANK else f"{text}, which is {BLANK}"
    if isinstance(value, str) and text.lower() in WORDS:
        return f"{text}, a word and no switch"
    plain = not isinstance(value, str | bool | list | dict)
    return f"{text}, which YAML reads as {value}" if plain and str(value) != text else text
