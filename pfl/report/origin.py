"""What is needed to repeat a run: what its artifacts say of themselves."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pfl.artifacts.hashing import recorded_sha256
from pfl.artifacts.hdf5 import reading
from pfl.report.table import Table, plain

Attributes = dict[str, Any]


def attributes(path: Path, schema: str) -> Attributes:
    """Root attributes of an artifact, with its own SHA-256 as ``sha256``.

    Raises:
        InputError: the artifact is missing, damaged or of another schema.
    """
    with reading(path, schema) as file:
        return {**file.attrs, "sha256": recorded_sha256(path, schema)}


def versions_table(artifacts: Mapping[str, Attributes]) -> Table:
    """Versions of the libraries that made any of the artifacts."""
    prefix = "version-"
    versions = {
        (name.removeprefix(prefix), str(value))
        for facts in artifacts.values()
        for name, value in facts.items()
        if name.startswith(prefix)
    }
    caption = "Libraries whose version can change a number; constraints.txt lists all."
    return plain(caption, ["library", "version"], sorted(versions), words=True)


def hashes_table(artifacts: Mapping[str, Attributes]) -> Table:
    """SHA-256 of the images, the weights and each artifact."""
    features = artifacts["features"]
    named = {
        "images.h5": features["images-sha256"],
        "backbone's weights": features["weights-sha256"],
        **{f"{name}.h5": facts["sha256"] for name, facts in artifacts.items()},
    }
    caption = "SHA-256 of each artifact's content, as the first line of its file records it."
    rows = [[name, str(value)] for name, value in named.items()]
    return plain(caption, ["what", "SHA-256"], rows, words=True)
