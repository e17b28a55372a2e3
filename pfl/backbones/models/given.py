"""The weights that a user names: a file, or a folder with a file named after the backbone.

No PyTorch is imported, so that a path that leads nowhere is told at once.
"""

from pathlib import Path

from pfl.errors import InputError
from pfl.runtime.spelling import existing

SUFFIXES = (".pth", ".pt", ".safetensors")


def given_weights(name: str, given: Path) -> Path | None:
    """The weights file of backbone ``name``; None where ``given`` is a folder without one.

    Raises:
        InputError: ``given`` is neither a file nor a folder.
    """
    given = existing(given)
    if given.is_file():
        return given
    if not given.is_dir():
        what = "is no regular file" if given.exists() else "does not exist"
        raise InputError(
            f"{given}, where weights of '{name}' should be, {what}: set extract.weights to a "
            "weights file, or to an existing folder such as data/weights."
        )
    named = (given / f"{name}{suffix}" for suffix in SUFFIXES)
    return next((path for path in named if path.is_file()), None)
