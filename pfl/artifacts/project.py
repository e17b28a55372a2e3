"""Where a project keeps what its stages make, and which stage makes what."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pfl.errors import InputError

# The schema of each artifact in data/, from upstream to downstream, and the stage that makes it.
STAGES = {
    "images": "prepare",
    "index": "prepare",
    "clients": "partition",
    "features": "extract",
    "uploads": "gram",
    "members": "aggregate",
    "server": "aggregate",
    "heads": "personalize",
}


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
        except (OSError, YAMLError, KeyError, TypeError) as error:
            raise InputError(
                f"{path} does not say where the backbone's weights are ({error!r}): name a file "
                "or a folder with --weights."
            ) from error
        return self.root / str(named)


def missing(path: Path, schema: str) -> InputError:
    """The error that the artifact of a schema is not there."""
    return InputError(
        f"{path} does not exist: `dvc repro {STAGES[schema]}`, run in the project's folder, "
        "makes it."
    )


def load_yaml(text: str) -> Any:
    """What a YAML text holds."""
    return YAML(typ="safe", pure=True).load(text)
