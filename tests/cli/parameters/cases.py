"""The real params.yaml, its keys, and each value replaced by what people write by mistake."""

from functools import cache
from pathlib import Path

from pfl.cli.parameters.document import Entry, parse_document, read_document
from pfl.cli.parameters.judging import judged
from pfl.cli.parameters.methods import head_findings, method_findings
from pfl.cli.parameters.pipeline import read_pipeline
from tests.workspace import ROOT

DVC = {"bool": "boolean_optional", "list": "append"}  # section parsing of .dvc/config
WRITTEN = {
    "null": "",
    "tilde": "~",
    "yes": "yes",
    "no": "no",
    "on": "on",
    "off": "off",
    "true": "true",
    "quoted truth": "'true'",
    "quoted number": "'1'",
    "exponent": "1e5",
    "exponent of a fraction": "1e-05",
    "number": "3",
    "below zero": "-1",
    "fraction": "0.5",
    "infinite": ".inf",
    "no number": ".nan",
    "leading zero": "007",
    "date": "2020-01-01",
    "word": "nonsense",
    "empty text": "''",
    "list": "[1, 2]",
    "list of one": "[nonsense]",
    "list with a blank": "[~]",
    "empty list": "[]",
    "section": "{a: 1}",
    "empty section": "{}",
}


@cache
def document():
    entry, findings = read_document(ROOT / "params.yaml")
    assert findings == []
    return entry


@cache
def pipeline():
    return read_pipeline(ROOT / "dvc.yaml")


def flat(entry, before=""):
    """Dotted keys of all values; an empty section is a value too."""
    for name, below in entry.value.items():
        if below.is_section and below.value:
            yield from flat(below, f"{before}{name}.")
        else:
            yield f"{before}{name}"


KEYS = [*flat(document())]
TABLED = [key for key in KEYS if key.partition(".")[0] in ("train", "heads")]
FLAGGED = [key for key in KEYS if key not in TABLED]


def flag_of(key):
    """The flag of a key, and the flag of its entries where a matrix runs over them."""
    section, _, name = key.partition(".")
    over = pipeline().lists.get(key)
    return pipeline().sections.get(section, {}).get(name, over), over


@cache
def one(text):
    """The entry of a value that is written so."""
    return parse_document(f"x: {text}\n", Path("x.yaml"))[0].value["x"]


def replaced(entry, names, value):
    """The section with another value for the key of these names."""
    first, *rest = names
    below = replaced(entry.value[first], rest, value) if rest else value
    return Entry({**entry.value, first: below}, entry.text, entry.line)


def findings(key, value):
    """What is wrong where a key of the real file has another value, in it or around it."""
    if key in FLAGGED:
        flag, over = flag_of(key)
        return [*judged(flag, value, over)]
    section, name, *rest = key.split(".")
    entry = document().value[section].value[name]
    changed = replaced(entry, rest, value) if rest else value
    find = method_findings if section == "train" else head_findings
    return [*find(name, changed)]
