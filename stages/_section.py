"""A section of a parameter file, for the few that cannot be flags of a command.

DVC can neither put the section of a matrix's item into a command, nor a list. Such a command names
its section as ``params.yaml:train.fedper``, beside the same name under the stage's ``params``: so
nothing is read that DVC does not watch.
"""

from pathlib import Path
from typing import Any, TypeVar

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pfl.errors import InputError

Section = TypeVar("Section", dict[str, object], list[int])


def read_section(place: str, kind: type[Section]) -> Section:
    """What is at ``FILE:SECTION``, the section being names with dots between; nothing is empty.

    Raises:
        InputError: the file or the section is not there, or not of this kind.
    """
    name, _, section = place.partition(":")
    try:
        found: Any = YAML(typ="safe", pure=True).load(Path(name))
        for key in section.split("."):
            found = found[key]
    except (OSError, YAMLError, KeyError, TypeError) as error:
        raise InputError(
            f"The section '{section}' of {name} cannot be read ({error!r}): write it there."
        ) from error
    if found is None:
        return kind()
    if not isinstance(found, kind):
        form = "names with values" if kind is dict else "a list of whole numbers"
        raise InputError(f"The section '{section}' of {name} is {found}, and must be {form}.")
    return found
