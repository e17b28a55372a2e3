"""``params.yaml`` as DVC reads it, each value with its line and with how it is written there.

DVC reads YAML 1.2 by ruamel.yaml: ``yes`` and ``on`` are words, ``1e5`` is a number with a
fraction, and a value left out is null. A key that is there twice ends DVC; here it is told with the
rest.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from pfl.errors import InputError, one_line

LONGEST = 60  # characters of a value that a sentence quotes
BLANK = "blank"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        key: dotted, as ``partition.clients``.
        line: of the file, from 1 on; None where nothing is written.
        sentence: what is wrong and what to do about it.
    """

    key: str
    line: int | None
    sentence: str


@dataclass(frozen=True)
class Entry:
    """A value of the file.

    Attributes:
        value: as DVC has it; of a section entries by key, of a list entries.
        text: as it is written, cut where it is long; ``blank`` where nothing is.
        line: where it begins, from 1 on.
    """

    value: Any
    text: str
    line: int

    @property
    def is_section(self) -> bool:
        """Whether it holds names with values."""
        return isinstance(self.value, dict)

    @property
    def is_list(self) -> bool:
        """Whether it is a list."""
        return isinstance(self.value, list)

    @property
    def plain(self) -> Any:
        """The value without lines and texts."""
        if self.is_section:
            return {key: entry.plain for key, entry in self.value.items()}
        return [entry.plain for entry in self.value] if self.is_list else self.value


def read_document(path: Path) -> tuple[Entry, list[Finding]]:
    """The whole file as a section, and the keys that are there twice or are no names.

    Raises:
        InputError: the file is missing, no YAML, or holds no sections.
    """
    try:
        return parse_document(path.read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({one_line(error)}): put it there.") from error


def parse_document(text: str, path: Path) -> tuple[Entry, list[Finding]]:
    """The same of a text; ``path`` is what messages name.

    Raises:
        InputError: it is no YAML, or holds no sections.
    """
    try:
        reader = YAML(typ="safe")
        root, reader.allow_duplicate_keys = reader.compose(text), True
        values = reader.load(text)
    except (YAMLError, ValueError) as error:
        raise InputError(f"{path} is no YAML: {_problem(error)}") from error
    if not isinstance(values, dict):
        raise InputError(f"{path} has no sections: it must hold names with values.")
    findings: list[Finding] = []
    return _entry(root, values, "", findings, ()), findings


def _problem(error: Exception) -> str:
    """What the reader stumbled on, and where."""
    remedy = "Mend it there or just above; indent with spaces, not tabs."
    if not isinstance(error, MarkedYAMLError):
        return f"{one_line(error, 200)}. {remedy}"
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}: " if mark else ""
    return f"{place}{' '.join(filter(None, (error.context, error.problem)))}. {remedy}"


def _entry(
    node: Node, value: Any, key: str, findings: list[Finding], above: tuple[Node, ...]
) -> Entry:
    """The entry of a node, and of all below it."""
    line = node.start_mark.line + 1
    if node in above:
        raise InputError(f"{key}, line {line}, refers to what it is in: write its values out.")
    within = (*above, node)
    if isinstance(node, MappingNode):
        section = _section(node, value, key, findings, within)
        return Entry(section, _cut(f"{{{', '.join(map(str, section))}}}"), line)
    if isinstance(node, SequenceNode):
        pairs = zip(node.value, value, strict=True)
        entries = [_entry(below, one, key, findings, within) for below, one in pairs]
        return Entry(entries, _cut(f"[{', '.join(entry.text for entry in entries)}]"), line)
    return Entry(value, _written(node), line)


def _section(
    node: MappingNode, values: Any, key: str, findings: list[Finding], within: tuple[Node, ...]
) -> dict[str, Entry]:
    """Entries by key, the first of those that are there twice."""
    section: dict[str, Entry] = {}
    for name_node, below in node.value:
        line, name = name_node.start_mark.line + 1, name_node.value
        if not isinstance(name_node, ScalarNode) or name not in values:
            where = f"{key}.{name}" if key else str(name)
            told = f"{_cut(where)} is no name that a value may have: write a word as its key."
            findings.append(Finding(_cut(where), line, told))
            continue
        full = f"{key}.{name}" if key else name
        if name in section:
            told = f"{full} is there twice, first in line {section[name].line}: remove one."
            findings.append(Finding(full, line, told))
            continue
        section[name] = _entry(below, values[name], full, findings, within)
    return section


def _written(node: Any) -> str:  # a scalar
    """A value with the quotes that it has in the file."""
    if node.style in ("'", '"'):
        return f"{node.style}{_cut(node.value)}{node.style}"
    return _cut(node.value) or BLANK


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
