"""docs/parameters.md, made from what stages say of their flags and from params.yaml.

    python -m stages._parameters > docs/parameters.md

A test compares the two, so that the page cannot go stale.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin

import typer
from ruamel.yaml import YAML

# Sections that become flags, and the stage that has them. Others belong to methods.
SECTIONS = {
    "prepare": "prepare",
    "partition": "partition",
    "extract": "extract",
    "public": "public",
    "pretrain": "pretrain",
    "features": "gram",
    "aggregate": "aggregate",
    "personalize": "personalize",
    "compare": "compare",
    "rounds": "train",
    "head-rounds": "heads",
}
Row = tuple[str, Any, str, str]  # name, default, values, meaning
HEAD = """# Parameters

Every value of `params.yaml`, its default and what it means. Made from the stages' own help by
`python -m stages._parameters`; do not edit.
"""


def page(path: Path = Path("params.yaml")) -> str:
    """The page, as Markdown."""
    values = YAML(typ="safe", pure=True).load(path)
    said = comments(path.read_text(encoding="utf-8"))
    said |= _of_heads(values["heads"], said)
    parts = [HEAD]
    for section, content in values.items():
        parts.append(f"## {section}\n")
        if section in SECTIONS:
            parts.append(_table(_flags(SECTIONS[section], flatten(content))))
            continue
        flat = flatten(content)
        parts.append(_table((name, flat[name], "", said[f"{section}.{name}"]) for name in flat))
    return "\n".join(parts)


def _of_heads(heads: Mapping[str, Any], said: Mapping[str, str]) -> dict[str, str]:
    """What values of heads mean: as in the first head, and the methods' own as in ``train``."""
    first, meanings = next(iter(heads)), {}
    for head, content in heads.items():
        for name in flatten(content):
            own = name.removeprefix("settings.")
            same = f"heads.{first}.{name}" if own == name else f"train.{content['method']}.{own}"
            meanings[f"heads.{head}.{name}"] = said[same]
    return meanings


def flatten(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values by dotted names."""
    values: dict[str, Any] = {}
    for key, value in content.items():
        nested = isinstance(value, Mapping)
        values |= flatten(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value}
    return values


def _flags(stage: str, content: Mapping[str, Any]) -> Iterator[Row]:
    """Name, default, values and help of each parameter of a section."""
    function = getattr(import_module(f"stages.{stage}"), stage)
    known = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        kind, option = get_args(parameter.annotation)[:2]
        # Within Annotated, typer takes the first name that is given for a default.
        declared = option.default if isinstance(option.default, str) else f"--{name}"
        known[declared.removeprefix("--").replace("_", "-")] = kind, option
    for name, value in content.items():
        kind, option = known[name]
        yield name, value, _values(kind, option), option.help


def _values(kind: Any, option: Any) -> str:
    """What a flag may be."""
    if get_origin(kind) is list:
        return f"list of {get_args(kind)[0].__name__}"
    if kind is bool:
        return "true, false"
    if issubclass(kind, Enum):
        return ", ".join(str(member.value) for member in kind)
    if option.min is None and option.max is None:
        return option.metavar or {int: "whole number", float: "number"}.get(kind, "")
    low = "" if option.min is None else f"{option.min:g} ≤ "
    # The largest seed is a limit of the file format and tells nobody anything.
    high = "" if option.max is None or option.max > 1e15 else f" ≤ {option.max:g}"
    return f"{low}x{high}"


def comments(text: str) -> dict[str, str]:
    """What stands behind each value of a YAML text, by dotted names."""
    meanings: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        match = re.fullmatch(r"( *)([\w-]+):(?:[^#]*)(?:# (.*))?", line)
        if match is None:
            continue
        indent, key, comment = len(match[1]), match[2], match[3] or ""
        above = [(depth, name) for depth, name in above if depth < indent]
        meanings[".".join([*(name for _, name in above), key])] = comment
        above.append((indent, key))
    return meanings


def _table(rows: Iterable[Row]) -> str:
    lines = ["| name | default | values | meaning |", "|---|---|---|---|"]
    for name, value, values, meaning in rows:
        shown = str(value).lower() if isinstance(value, bool) else str(value).replace("'", "")
        default = f"`{shown}`" if shown else ""
        cells = [f"`{name}`", default, values, meaning]
        lines.append(
            "| "
            + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells)
            + " |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    typer.echo(page(), nl=False)
