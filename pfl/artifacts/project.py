"""Where a project keeps what its stages make, and which stage makes what."""

import re
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pfl.errors import InputError

# What the stages of dvc.yaml make, from upstream to downstream: a path, in which * stands for an
# item of the stage's matrix, and the stage's name, with the same items in the same order.
OUTPUTS = {
    "data/images.h5": "prepare",
    "data/index.h5": "prepare",
    "data/clients.h5": "partition",
    "reports/partition": "partition",
    "data/public/*/images.h5": "public@*",
    "data/public/*/index.h5": "public@*",
    "data/pretrained/*.safetensors": "pretrain@*",
    "reports/pretrain/*": "pretrain@*",
    "data/features.h5": "extract",
    "data/uploads.h5": "gram",
    "reports/leakage": "leakage",
    "data/members.h5": "aggregate",
    "data/server.h5": "aggregate",
    "reports/upload.json": "aggregate",
    "data/heads.h5": "personalize",
    "reports/fedhip": "evaluate",
    "runs/*/seed-*.safetensors": "train@*-*",
    "reports/train/*/seed-*": "train@*-*",
    "runs/heads/*/seed-*.safetensors": "heads@*-*",
    "reports/heads/*/seed-*": "heads@*-*",
    "reports/comparison": "compare",
    "reports/index.html": "report",
}
# The stage by the schema of an artifact that every run makes.
STAGES = {
    PurePath(path).stem: stage
    for path, stage in OUTPUTS.items()
    if path.endswith(".h5") and "*" not in path
}


def made_by(path: Path) -> str | None:
    """The stage that makes the output of a project at ``path``; None where none does."""
    place = path.absolute().as_posix()
    for pattern, stage in OUTPUTS.items():
        match = re.search(f"/{re.escape(pattern)}$".replace(r"\*", "([^/]+)"), place)
        if match:
            return stage.replace("*", "{}").format(*match.groups())
    return None


@dataclass(frozen=True)
class Project:
    """A folder in which the pipeline runs."""

    root: Path

    def place(self, schema: str) -> Path:
        """Where the artifact of a schema is, or would be."""
        return self.root / "data" / f"{schema}.h5"

    def artifact(self, schema: str) -> Path:
        """Where the artifact of a schema is.

        Raises:
            InputError: it is not there; the message names the stage that makes it.
        """
        path = self.place(schema)
        if not path.exists():
            raise missing(path, schema)
        return path

    @property
    def report(self) -> Path:
        """The folder of FedHiP's report."""
        return self.root / "reports" / "fedhip"

    @property
    def upload(self) -> Path:
        """How many bytes FedHiP's clients sent."""
        return self.root / "reports" / "upload.json"

    @property
    def weights(self) -> Path:
        """The file or folder of the backbone's weights that params.yaml names.

        Raises:
            InputError: params.yaml does not name any.
        """
        path = self.root / "params.yaml"
        try:
            named = load_yaml(path.read_text(encoding="utf-8"))["extract"]["weights"]
        except (FileNotFoundError, UnicodeDecodeError, YAMLError, KeyError, TypeError) as error:
            raise InputError(
                f"{path} does not say where the backbone's weights are ({error!r}): name a file "
                "or a folder with --weights."
            ) from error
        return self.root / str(named)


def missing(path: Path, schema: str) -> InputError:
    """The error that the artifact of a schema is not there."""
    return InputError(
        f"{path} does not exist: `dvc repro {made_by(path) or STAGES[schema]}`, run in the "
        "project's folder, makes it."
    )


def load_yaml(text: str) -> Any:
    """What a YAML text holds."""
    return YAML(typ="safe", pure=True).load(text)
