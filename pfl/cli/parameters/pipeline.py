"""Which keys ``params.yaml`` has, and as what: from the commands of ``dvc.yaml`` and the stages.

``${section}`` in a command stands for the section's keys as flags. So the keys of a section are the
flags that its stage's function has, but those that the command gives itself, those of its other
sections, and the few that are no parameters. A matrix runs over a list: ``${section.key}`` gives
its entries, one by one, to the flag that stands before ``${item.…}``.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import click
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

import stages
from pfl.cli.parameters.flags import Flag
from pfl.errors import InputError, one_line
from stages._run import NO_PARAMETERS, parser

STAGE = re.compile(rf"-m {stages.__name__}\.(\w+)")
SECTION = re.compile(r"(?<=\s)\$\{([\w-]+)\}(?=\s|$)")
GIVEN = re.compile(r"(?<=\s)--([\w.-]+)")
ITEM = re.compile(r"--([\w.-]+) \$\{item\.([\w-]+)\}")
KEY = re.compile(r"\$\{([\w.-]+)\}")
Flags = dict[str, Flag]  # by the key's name within its section


@dataclass(frozen=True)
class Pipeline:
    """What ``dvc.yaml`` does with the parameters.

    Attributes:
        sections: the flags of each section.
        lists: keys over which a matrix runs, and the flag that gets each entry.
    """

    sections: Mapping[str, Flags]
    lists: Mapping[str, Flag]


@dataclass(frozen=True)
class _Use:
    """What a stage's command takes: sections, flags that it is given, items of its matrix."""

    stage: str
    sections: tuple[str, ...]
    given: frozenset[str]
    items: Mapping[str, str]
    matrix: Mapping[str, str]

    def options(self) -> tuple[click.Command, dict[str, click.Option]]:
        """The stage's parser, and its flags by their names."""
        function = getattr(import_module(f"{stages.__name__}.{self.stage}"), self.stage)
        command = parser(function)
        return command, {
            option.opts[0].removeprefix("--"): option
            for option in command.params
            if isinstance(option, click.Option) and option.name not in NO_PARAMETERS
        }


def read_pipeline(path: Path) -> Pipeline:
    """What the stages of ``dvc.yaml`` take from the parameters.

    A section that is alone in a command tells its keys, and is then known where it is not alone.
    Stages that would tell nothing new are not imported.

    Raises:
        InputError: there is none, or none with this project's stages.
    """
    known: dict[str, Flags] = {}
    lists: dict[str, Flag] = {}
    for use in sorted(_uses(path), key=lambda use: len(use.sections)):
        new = [section for section in use.sections if section not in known]
        over = {key: item for item, key in use.matrix.items() if item in use.items}
        if not new and over.keys() <= lists.keys():
            continue
        command, options = use.options()
        lists |= {key: Flag(command, options[use.items[item]], key) for key, item in over.items()}
        others = {name for section in use.sections for name in known.get(section, ())}
        for section in new[:1]:
            known[section] = {
                name: Flag(command, option, f"{section}.{name}")
                for name, option in options.items()
                if name not in use.given | others
            }
    return Pipeline(known, lists)


def _uses(path: Path) -> Iterator[_Use]:
    """What each stage of this project takes, in the order of the file."""
    try:
        content = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
        described = [
            (str(stage["cmd"]), stage.get("matrix", {})) for stage in content["stages"].values()
        ]
    except (OSError, ValueError, YAMLError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} cannot be read as a pipeline ({one_line(error)}): run this in the project's "
            "folder, or name it with --project."
        ) from error
    for command, matrix in described:
        words = " ".join(command.split())
        named = STAGE.search(words)
        if named is not None:
            yield _Use(
                named[1],
                tuple(SECTION.findall(words)),
                frozenset(GIVEN.findall(words)),
                {item: flag for flag, item in ITEM.findall(words)},
                {item: KEY.sub(r"\1", str(over)) for item, over in matrix.items()},
            )
