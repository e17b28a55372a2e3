"""What DVC says of each stage: whether its results are those of the present inputs."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pfl.cli.verification.outcome import SkippedError
from pfl.errors import InputError

HARMLESS = {"not in cache"}  # The file is what it should be; DVC keeps no copy of it.


@dataclass(frozen=True)
class DvcState:
    """The answer of ``dvc status`` in a folder, asked once, when it is first needed."""

    root: Path

    @cached_property
    def _answer(self) -> Mapping[str, Any] | str:
        """Changes by stage, or why there is no answer."""
        if not (self.root / "dvc.lock").is_file():
            return "there is no dvc.lock: DVC has not run the pipeline here"
        done = subprocess.run(
            [sys.executable, "-m", "dvc", "status", "--json"],
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        try:
            found: Mapping[str, Any] = json.loads(done.stdout)
        except ValueError:
            told = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
            return f"`dvc status` fails: {told[-300:]}"
        return found

    def check(self, stage: str, *outs: str) -> str:
        """That a stage need not run again for ``outs``, results of it.

        Raises:
            InputError: a result was changed, or the stage's inputs were.
            SkippedError: DVC does not answer.
        """
        answer = self._answer
        if isinstance(answer, str):
            raise SkippedError(answer)
        changes = _changes(answer.get(stage, []), outs)
        if changes:
            raise InputError(
                f"DVC says that {outs[0]} is not what dvc.lock and the present inputs stand for "
                f"({', '.join(changes)}): run `dvc repro {stage}`."
            )
        return "as dvc.lock has it"


def _changes(entries: list[Any], outs: tuple[str, ...]) -> list[str]:
    """Changes of a stage's command, inputs and parameters, and of ``outs``."""
    told: list[str] = []
    for entry in entries:
        if isinstance(entry, str):  # "changed command" and the like
            told.append(entry)
            continue
        for kind, items in entry.items():
            for name, status in items.items():
                other = kind == "changed outs" and name not in outs
                what = status if isinstance(status, str) else ", ".join(status)
                if not other and what not in HARMLESS:
                    told.append(f"{name}: {what}")
    return told
