"""A section of a parameter file, where it cannot become flags of a command.

DVC does not put the section of a matrix's item into a command. So the command names it, as in
``params.yaml:train.fedper``, beside the same name under the stage's ``params``: nothing is read
that DVC does not watch.
"""

import io
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pfl.errors import InputError


def read_section(place: str) -> dict[str, object]:
    """What is at ``FILE:SECTION``, the section being names with dots between; nothing is empty.

    Raises:
        InputError: the file or the section is not there, or it is a value.
    """
    name, _, section = place.partition(":")
    try:
        values: Any = YAML(typ="safe", pure=True).load(Path(name))
        for key in section.split("."):
            values = values[key]
    except (OSError, YAMLError, KeyError, TypeError) as error:
        raise InputError(
            f"The section '{section}' of {name} cannot be read ({error!r}): write it there."
        ) from error
    if not isinstance(values, dict | None):
        raise InputError(
            f"The section '{section}' of {name} is {values}, and must be names with values."
        )
    return values or {}


def section_text(sections: dict[str, object]) -> str:
    """Sections as they stand in a parameter file."""
    stream = io.StringIO()
    YAML(pure=True).dump(sections, stream)
    return stream.getvalue()
