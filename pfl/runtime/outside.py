"""Results behind a link: a stage would compute them, and DVC then not keep them.

Where DVC goes with Git it says ``… is outside of git repository`` after the stage has run, of
outputs whose folder leads out of the clone by a symbolic link. Mounted folders and links to the
clone as a whole do not matter, nor do links of inputs, such as ``data/raw``, or of DVC's cache.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from pfl.errors import InputError

NO_GIT = re.compile(r"^\s*no_scm\s*=\s*true\s*$", re.IGNORECASE | re.MULTILINE)


def refuse_links(project: Path, folders: Iterable[Path]) -> None:
    """Refuse folders of results, relative to the project's, that lie outside of its Git clone.

    Raises:
        InputError: one does, and DVC goes with Git.
    """
    if not _with_git(project):
        return
    here = project.resolve()
    for folder in folders:
        there = (here / folder).resolve()
        if not there.is_relative_to(here):
            raise InputError(
                f"{folder} leads by a link to {there}, and in a Git clone DVC keeps no results "
                f"outside of the clone: make {folder} a folder again, and let DVC's cache or the "
                "whole clone lie on the other disk, as docs/data.md says under 'A large disk'."
            )


def _with_git(project: Path) -> bool:
    """Whether DVC looks for a Git repository and finds one."""
    config = (project / ".dvc" / name for name in ("config", "config.local"))
    said = [path.read_text(encoding="utf-8") for path in config if path.is_file()]
    return (project / ".git").exists() and not any(NO_GIT.search(text) for text in said)
