"""params.yaml is read as DVC reads it, with lines, texts and keys that are there twice."""

import pytest
from dvc.utils.serialize import parse_yaml

from pfl.cli.parameters.document import parse_document, read_document
from pfl.errors import InputError
from tests.cli.parameters.cases import WRITTEN
from tests.workspace import ROOT


def test_values_are_those_that_dvc_reads(tmp_path):
    real = ROOT / "params.yaml"
    lines = (f"of-{name.replace(' ', '-')}: {text}" for name, text in WRITTEN.items())
    for text in (real.read_text(encoding="utf-8"), "\n".join(lines).replace(".nan", "~")):
        entry, findings = parse_document(text, real)
        assert (entry.plain, findings) == (parse_yaml(text, real), [])


def test_an_entry_knows_its_line_and_what_is_written(tmp_path):
    entry, _ = parse_document('a:\n  b: 1e5\n  c: "x"\n  d:\n  e: [1, ~, yes]\n', tmp_path)
    section = entry.value["a"].value
    assert [(one.text, one.line) for one in section.values()] == [
        ("1e5", 2), ('"x"', 3), ("blank", 4), ("[1, ~, yes]", 5),
    ]  # fmt: skip


def test_keys_that_are_there_twice_are_all_told(tmp_path):
    text = "a: 1\nb:\n  c: 2\n  c: 3\na: 4\n[1]: 2\n"
    entry, findings = parse_document(text, tmp_path)
    assert [one.line for one in findings] == [4, 5, 6]
    assert list(entry.plain) == ["a", "b"]
    sentences = [one.sentence for one in findings]
    assert sentences[:2] == [
        "b.c is there twice, first in line 3: remove one.",
        "a is there twice, first in line 1: remove one.",
    ]
    assert "is no name" in sentences[2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1\nb: 2\n", "is no YAML: line 2: .*spaces, not tabs"),
        ("a:\n\tb: 1\n", "is no YAML: line 2"),
        ("- 1\n", "has no sections"),
        ("", "has no sections"),
        ("a: !strange 1\n", "is no YAML: line 1"),
        ("a: 1\n---\nb: 2\n", "is no YAML: line "),
        ("a: \x00", "is no YAML"),
        ("a: &x {b: *x}\n", "refers to what it is in"),
    ],
)
def test_what_is_no_parameter_file_is_told(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        parse_document(text, tmp_path / "params.yaml")


def test_a_file_that_is_not_there_or_no_text_is_told(tmp_path):
    path = tmp_path / "params.yaml"
    with pytest.raises(InputError, match=r"params\.yaml cannot be read"):
        read_document(path)
    path.write_bytes(b"a: \xff")
    with pytest.raises(InputError, match=r"params\.yaml cannot be read"):
        read_document(path)
