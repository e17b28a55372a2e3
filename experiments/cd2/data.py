"""Images and clients of a study, made by the pipeline's own stages, once for each that differs."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from ruamel.yaml import YAML

from experiments.cd2.shards import shuffled_shards
from pfl.data.samples.clients import write_clients
from pfl.data.samples.index import read_index

EXTERNAL = "external-group"


@dataclass(frozen=True)
class Data:
    """What is trained on: values of `prepare` and `partition` that differ from params.yaml.

    Attributes:
        source: the name that --path knows it by.
        prepare: of that section, but its path.
        partition: of that section, but clients and seed.
        shards: dealt as LG-FedAvg's code does, so many to a client; 0 for as `partition` says.
        raters: users made up who rate the images of ``source``, an array file; 0 for none.
    """

    source: str
    prepare: Mapping[str, object] = field(default_factory=dict)
    partition: Mapping[str, object] = field(default_factory=dict)
    shards: int = 0
    raters: int = 0


def made(
    data: Data, clients: int, seed: int, paths: Mapping[str, Path], work: Path
) -> dict[str, Path]:
    """Files by the flags of `train`; what is there is not made again."""
    path, stated = paths[data.source], _stated()
    prepare: dict[str, object] = {**stated["prepare"], **data.prepare}
    if data.raters:
        path = _rated(path, data.raters, work)
    elif path.suffix == ".npz":
        prepare["dataset"] = "npz"
    prepare["path"] = str(path)
    images = work / _key(prepare)
    files = {"images": images / "images.h5", "index": images / "index.h5"}
    if not files["index"].exists():
        _stage("prepare", prepare, files)
    partition = stated["partition"] | dict(data.partition) | {"clients": clients, "seed": seed}
    dealt = images / _key(partition | {"shards": data.shards})
    files["clients-file"] = dealt / "clients.h5"
    if not files["clients-file"].exists() and data.shards:
        _deal(files, data.shards, clients, seed)
    elif not files["clients-file"].exists():
        flags = {"index": files["index"], "clients-file": files["clients-file"]}
        _stage("partition", partition, flags | {"report": dealt / "report"})
    return files


def _stated() -> dict[str, Any]:
    return YAML(typ="safe", pure=True).load(Path("params.yaml"))


def _key(values: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


def _stage(name: str, values: Mapping[str, object], files: Mapping[str, Path]) -> None:
    next(iter(files.values())).parent.mkdir(parents=True, exist_ok=True)
    for path in files.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    flags = [flag for item in values.items() for flag in flags_of(*item)]
    flags += [f"--{name}={path}" for name, path in files.items()]
    subprocess.run([sys.executable, "-m", f"stages.{name}", *flags], check=True)


def flags_of(name: str, value: object) -> list[str]:
    """A parameter as DVC makes it flags."""
    if isinstance(value, bool):
        return [f"--{'' if value else 'no-'}{name}"]
    if isinstance(value, list | tuple):
        return [f"--{name}={one}" for one in value]
    return [f"--{name}={value}"]


def _deal(files: Mapping[str, Path], shards: int, clients: int, seed: int) -> None:
    index = read_index(files["index"])
    dealt = shuffled_shards(index, clients, shards, np.random.default_rng(seed))
    files["clients-file"].parent.mkdir(parents=True, exist_ok=True)
    facts = {"scheme": "shards", "clients": clients, "seed": seed}
    write_clients(files["clients-file"], dealt, facts | {"index-sha256": index.sha256})


def _rated(arrays: Path, users: int, work: Path) -> Path:
    """A folder in which made-up users rate the images, see `experiments.ratings`."""
    folder = work / f"rated-{users}"
    if not folder.exists():
        part = folder.with_suffix(".part")
        words = [str(arrays), str(part), "--users", str(users)]
        subprocess.run([sys.executable, "-m", "experiments.ratings", *words], check=True)
        part.rename(folder)
    return folder
