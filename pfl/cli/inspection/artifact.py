"""What any output says of itself: schema, stage, parameters, origins, datasets, a summary."""

import re
from collections.abc import Iterator
from pathlib import Path

import h5py

from pfl.artifacts.hashing import first_line
from pfl.artifacts.hdf5 import reading
from pfl.artifacts.project import STAGES, made_by, missing
from pfl.cli.display import Content
from pfl.cli.inspection.summaries import SUMMARIES
from pfl.cli.inspection.trained import describe_trained
from pfl.errors import InputError

WHAT = {
    "images": "every image, as pixels or as its file",
    "index": "image, label, split and group of every sample",
    "clients": "who holds which samples",
    "features": "fixed-point features of every image",
    "uploads": "what each client sends",
    "members": "which clients are in the server's sums",
    "server": "what the server sends back: sums and the global head",
    "heads": "what each client keeps: its local and personalized head",
}
NUMBER = re.compile(r"(?<=/)\d+(?=/)")  # of a client, in a dataset's name


def describe(path: Path, client: int | None = None) -> Content:
    """All of what an HDF5 artifact, a .safetensors file of data/ or runs/, or a report can say.

    With a ``client`` it is of this one alone, and more.

    Raises:
        InputError: the file is missing, damaged, of an older schema or none of ours, or there is
            no such client.
    """
    if path.suffix == ".safetensors":
        return describe_trained(path)
    if path.suffix != ".h5" and path.exists() and made_by(path):
        return _report(path)
    _check_name(path)
    schema, sha256 = first_line(path)
    kind = schema.partition("/")[0]
    with reading(path, kind) as file:
        content = {
            "file": str(path),
            "what": WHAT.get(kind, "an artifact that this version has no summary of"),
            "schema": schema,
            "made-by": (path.stem == kind and made_by(path)) or STAGES.get(kind),
            "bytes": path.stat().st_size,
            "sha256": sha256,
            **_attributes(file),
            "datasets": list(_datasets(file)),
        }
    return {**content, **SUMMARIES[kind](path, client)} if kind in SUMMARIES else content


def _report(path: Path) -> Content:
    """What a stage has written to be read: a page, or a folder."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    return {
        "file": str(path),
        "what": "a report, whose files are to be read as they are",
        "made-by": made_by(path),
        "files": [{"file": str(file), "bytes": file.stat().st_size} for file in files],
    }


def _check_name(path: Path) -> None:
    if not path.exists() and path.stem in STAGES:
        raise missing(path, path.stem)
    if path.is_file() and path.suffix != ".h5":
        raise InputError(
            f"{path} is no artifact of this pipeline: name an .h5 file of data/, a .safetensors "
            "file of data/ or runs/, or a folder of reports/."
        )


def _attributes(file: h5py.File) -> dict[str, dict[str, object]]:
    """Root attributes, told apart: parameters and facts, origins, versions of libraries."""
    parts: dict[str, dict[str, object]] = {"parameters": {}, "made-from": {}, "versions": {}}
    for name, value in file.attrs.items():
        plain = value.item() if hasattr(value, "item") else value
        source = name.removesuffix("-sha256")
        if name.startswith("version-"):
            parts["versions"][name.removeprefix("version-")] = plain
        elif source != name and source in STAGES:
            parts["made-from"][f"{source}.h5"] = plain or None
        else:
            parts["parameters"][name] = plain
    return parts


def _datasets(file: h5py.File) -> Iterator[dict[str, object]]:
    """One row a dataset; those of all clients, which differ in a number, are one row together."""
    datasets: dict[str, list[h5py.Dataset]] = {}
    file.visititems(
        lambda name, item: (
            datasets.setdefault(NUMBER.sub("<k>", name), []).append(item)
            if isinstance(item, h5py.Dataset)
            else None
        )
    )
    for name, items in datasets.items():
        shapes = {" × ".join(map(str, item.shape)) for item in items}
        yield {
            "dataset": name,
            "shape": shapes.pop() if len(shapes) == 1 else "varies",
            "type": ", ".join(sorted({str(item.dtype) for item in items})),
            "datasets": len(items),
            "bytes": sum(item.id.get_storage_size() for item in items),
        }
