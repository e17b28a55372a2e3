"""What a run of the pipeline left to read: in a folder, or in a revision that git and DVC keep."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pfl.errors import InputError

WORKSPACE = "workspace"

# From a path relative to the project to its text.
Reader = Callable[[str], str]


def reader(run: str, project: Path) -> Reader:
    """How to read the files of a run.

    It is ``workspace``, a folder with another copy of the project, or what DVC calls a revision of
    the history in the folder ``project``: a commit, branch, tag or experiment.

    Raises:
        InputError: it is none of these.
    """
    if run == WORKSPACE:
        return _folder(project)
    if (Path(run) / "params.yaml").is_file():
        return _folder(Path(run))
    return _revision(run, project)


def _folder(root: Path) -> Reader:
    def read(path: str) -> str:
        try:
            return (root / path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{root / path} cannot be read ({error}): run `dvc repro` in {root}, which makes "
                "it."
            ) from error

    return read


def _revision(run: str, project: Path) -> Reader:
    from dvc.api import DVCFileSystem
    from dvc.exceptions import DvcException
    from dvc.scm import SCMError

    try:
        system: Any = DVCFileSystem(str(project), rev=run)
        system.ls("/")  # Only now is the revision looked up.
    except (DvcException, SCMError, OSError, ValueError) as error:
        raise InputError(
            f"'{run}' is neither '{WORKSPACE}', nor a folder with a params.yaml, nor a revision or "
            f"experiment in the git history of {project.resolve()} ({_line(error)}): `git log` "
            "lists revisions, `dvc exp show` experiments."
        ) from error

    def read(path: str) -> str:
        try:
            return str(system.read_text(path, encoding="utf-8"))
        except (DvcException, OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"'{run}' has no {path}, or DVC's cache keeps it no more ({_line(error)}): "
                "check it out in a copy of the project, and run `dvc repro evaluate` there."
            ) from error

    return read


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
