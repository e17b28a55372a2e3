"""Symbolic links in a data folder: followed inside it, refused where they lead out.

The data folder itself may be a link. One in it that leads out would let whoever packed the data
choose which other files of this machine are read as images, and DVC would not notice changes there.
"""

import errno
from pathlib import Path

from pfl.errors import InputError


def check_link(link: Path, home: Path) -> None:
    """Refuse a link that leads out of ``home``, the resolved data folder, nowhere, or to itself.

    Raises:
        InputError: it does.
    """
    try:
        target = link.resolve()
    except (RuntimeError, OSError) as error:  # OSError from Python 3.13 on
        if getattr(error, "errno", errno.ELOOP) != errno.ELOOP:
            raise
        raise InputError(f"{link} links to itself in a circle: remove or mend it.") from error
    if not target.is_relative_to(home):
        raise InputError(
            f"{link} links to {target}, outside the data folder, where changes go unnoticed: "
            "copy what it links to into the folder, or remove the link."
        )
    if not target.exists():
        raise InputError(f"{link} links to {target}, which does not exist: remove or mend it.")


def check_links(home: Path, paths: tuple[str, ...]) -> None:
    """Refuse such links on the way from ``home`` to each of the relative ``paths``.

    Raises:
        InputError: there is one.
    """
    root = home.resolve()
    for path in paths:
        place = home
        for part in Path(path).parts:
            place = place / part
            if place.is_symlink():
                check_link(place, root)
