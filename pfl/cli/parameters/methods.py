"""The sections ``train`` and ``heads``: a method's own settings, and how a head is trained.

Stages read them as YAML has them, so a quoted number is a text here and no number.
"""

import re
from collections.abc import Iterator, Mapping

from pfl.cli.parameters.document import Entry, Finding
from pfl.cli.parameters.judging import shown
from pfl.cli.parameters.names import nearest, unknown
from pfl.errors import InputError
from pfl.runtime.values import Kind, annotated, checked, may_be
from pfl.training.head_settings import KEYS, METHOD, NUMBERS, OWN
from pfl.training.methods.settings import RECORDS, method_settings

NAME = re.compile(r"[\w-]+")  # of what is an item of a matrix, and a part of a dotted key
EMPTY = "write {} for none"


def method_findings(name: str, entry: Entry) -> Iterator[Finding]:
    """What is wrong with the entry ``train.<name>``; a blank one is empty."""
    key = f"train.{name}"
    if name not in RECORDS:
        told = f"{key} is no method: {nearest(name, RECORDS)}."
        yield Finding(key, entry.line, told)
    else:
        empty = Entry({}, entry.text, entry.line)
        yield from settings_findings(key, empty if entry.value is None else entry, name)


def settings_findings(key: str, entry: Entry, method: str) -> Iterator[Finding]:
    """What is wrong with a method's settings, each by itself; if nothing is, with all together."""
    known = annotated(RECORDS[method])
    names = ", ".join(known) or "nothing, {}"
    if not entry.is_section:
        yield Finding(key, entry.line, f"{key} is {shown(entry)}: it must hold {names}.")
        return
    findings = [*unknown(key, entry, known), *_missing(key, entry, known), *_of(key, entry, known)]
    yield from findings
    if findings:
        return
    try:
        method_settings(method, entry.plain, key)
    except InputError as error:
        yield Finding(key, entry.line, str(error))


def head_findings(name: str, entry: Entry) -> Iterator[Finding]:
    """What is wrong with the entry ``heads.<name>``."""
    key = f"heads.{name}"
    if not NAME.fullmatch(name):
        told = f"{key} cannot be named in a command: write letters, digits, - and _ alone."
        yield Finding(key, entry.line, told)
    if not entry.is_section:
        told = f"{key} is {shown(entry)}: it must hold {', '.join(KEYS)}."
        yield Finding(key, entry.line, told)
        return
    yield from unknown(key, entry, KEYS)
    yield from _missing(key, entry, dict.fromkeys(KEYS))
    yield from _of(key, entry, NUMBERS)
    method, own = entry.value.get(METHOD), entry.value.get(OWN)
    known = method is not None and isinstance(method.value, str) and method.value in RECORDS
    if method is not None and not known:
        told = f"{key}.{METHOD} is {shown(method)}: it must be one of {', '.join(RECORDS)}."
        yield Finding(f"{key}.{METHOD}", method.line, told)
    if own is not None and own.value is None:
        told = f"{key}.{OWN} is {shown(own)}: it must hold names with values; {EMPTY}."
        yield Finding(f"{key}.{OWN}", own.line, told)
    elif own is not None and known:
        yield from settings_findings(f"{key}.{OWN}", own, method.value)


def _of(key: str, entry: Entry, known: Mapping[str, Kind]) -> Iterator[Finding]:
    """Values of another kind, or out of their range."""
    for name, (kind, within) in known.items():
        below = entry.value.get(name)
        if below is None:
            continue
        try:
            checked(f"{key}.{name}", below.plain, kind, within)
        except InputError:
            told = f"{key}.{name} is {shown(below)}: it must be {may_be(kind, within)}."
            yield Finding(f"{key}.{name}", below.line, told)


def _missing(key: str, entry: Entry, known: Mapping[str, Kind | None]) -> Iterator[Finding]:
    for name in known.keys() - entry.value.keys():
        kind = known[name]
        told = f": it must be {may_be(*kind)}" if kind else f": {key} must hold {', '.join(known)}"
        yield Finding(f"{key}.{name}", entry.line, f"{key}.{name} is missing{told}.")
