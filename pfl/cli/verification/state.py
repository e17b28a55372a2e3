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

HARMLESS = "not in cache"  # The file is what it should be; DVC keeps no copy of it.


@dataclass(frozen=True)
class DvcState:
    """The answer of ``dvc status`` in a folder, asked once, when it is first needed."""

    root: Path

    @cached_property
    def _answer(self) -> Mapping[str, Any] | str:
        """Changes by stage, or why there is no answer."""
        if not (self.root / "dvc.lock").is_file():
            return "there is no dvc.lock: DVC has not run the pipeline here"
        command = [sys.executable, "-m", "dvc", "status", "--json"]
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
        try:
            return json.loads(done.stdout)
        except ValueError:
            reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
            return f"`dvc status` fails: {reason[-300:]}"

    @property
    def missing(self) -> frozenset[str]:
        """Outputs that were made, or are to be, and are not there."""
        answer = {} if isinstance(self._answer, str) else self._answer
        changed = (
            entry.get("changed outs", {}).items()
            for entries in answer.values()
            for entry in entries
            if not isinstance(entry, str)
        )
        return frozenset(out for items in changed for out, status in items if status == "deleted")

    def check(self, stage: str, out: str) -> str:
        """That a stage need not run again for ``out``, which it makes.

        Raises:
            InputError: the output was changed, or the stage's inputs were.
            SkippedError: DVC does not answer.
        """
        answer = self._answer
        if isinstance(answer, str):
            raise SkippedError(answer)
        changes = _changes(answer.get(stage, []), out)
        if changes:
            raise InputError(
                f"DVC says that {out} is not what dvc.lock and the present inputs stand for "
                f"({', '.join(changes)}): run `dvc repro {stage}`."
            )
        return "as dvc.lock has it"


def _changes(entries: list[Any], out: str) -> list[str]:
    """Changes of a stage's command, inputs and parameters, and of the output ``out`` alone."""
    changes: list[str] = []
    for entry in entries:
        if isinstance(entry, str):  # "changed command" and the like
            changes.append(entry)
            continue
        for kind, items in entry.items():
            for name, status in items.items():
                other = kind == "changed outs" and name != out
                what = status if isinstance(status, str) else ", ".join(status)
                if not other and what != HARMLESS:
                    changes.append(f"{name}: {what}")
    return changes
