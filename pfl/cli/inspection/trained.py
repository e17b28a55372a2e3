"""What a file of trained networks says of itself, without reading a weight."""

import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

from safetensors import safe_open

from pfl.artifacts.hashing import unusable_file
from pfl.artifacts.project import made_by
from pfl.cli.display import Content
from pfl.errors import InputError, of_system

KEY = "pfl"  # of the metadata, as in :mod:`pfl.artifacts.tensors`, which would load PyTorch
Shapes = dict[str, tuple[list[int], str]]  # of each tensor, and its type


def describe_trained(path: Path) -> Content:
    """Of a method's models: settings, rounds, what is shared and private; of an encoder: its parts.

    Raises:
        InputError: the file is missing, damaged or of another origin.
    """
    if not path.is_file():
        raise unusable_file(path)
    try:
        with safe_open(path, "numpy") as file:
            facts = json.loads((file.metadata() or {})[KEY])
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            shapes = {name: (part.get_shape(), part.get_dtype()) for name, part in slices.items()}
        return (_encoder if "architecture" in facts else _models)(path, facts, shapes)
    except Exception as error:  # What a file says that is not ours makes nearly anything fail.
        if of_system(error):
            raise
        raise InputError(
            f"{path} is damaged or holds no models of a trained method ({error!r}): delete it and "
            "run `dvc repro`, which makes it again."
        ) from error


def _models(path: Path, facts: dict[str, Any], shapes: Shapes) -> Content:
    """Networks by ``train``, or heads on features by ``heads``."""
    last, training = facts.pop("last"), facts.pop("training", {})
    name, stage = (facts["head"], "heads") if "head" in facts else (facts.get("method"), "train")
    return {
        "file": str(path),
        "what": "the models of a trained method: the server's and the clients'",
        "made-by": f"{stage}@{name}-{training.get('seed')}",
        "bytes": path.stat().st_size,
        "parameters": {**facts, "settings": _line(facts.get("settings")), "holdout": _line(
            facts.get("holdout"))},
        "training": training,
        "entries": [
            {"shared-entry": name.removeprefix("shared/"), "shape": " × ".join(map(str, shape)),
             "type": kind}
            for name, (shape, kind) in shapes.items() if name.startswith("shared/")
        ],
        "clients": _clients(shapes, last),
    }  # fmt: skip


def _encoder(path: Path, facts: dict[str, Any], shapes: Shapes) -> Content:
    """The encoder that ``pretrain`` keeps: architecture, training, how large."""
    training = facts["training"]
    return {
        "file": str(path),
        "what": "the encoder of a masked autoencoder: a backbone",
        "made-by": made_by(path) or "pretrain",
        "bytes": path.stat().st_size,
        "architecture": facts["architecture"],
        "numbers": sum(math.prod(shape) for shape, _ in shapes.values()),
        "parameters": {
            name: _line(value) if isinstance(value, dict) else value
            for name, value in training.items()
        },
    }


def _clients(shapes: Shapes, last: list[int]) -> list[dict[str, object]]:
    """Numbers that each client keeps for itself, and its last round."""
    kept: defaultdict[tuple[str, int], int] = defaultdict(int)
    for name, (shape, _) in shapes.items():
        kind, _, rest = name.partition("/")
        if kind != "shared":
            kept[kind, int(rest.partition("/")[0])] += math.prod(shape)
    return [
        {
            "client": k,
            "last-round": number,
            "private-numbers": kept["private", k],
            "numbers-remembered": kept["memory", k],
        }
        for k, number in enumerate(last)
    ]


def _line(values: object) -> str | None:
    return json.dumps(values) if values else None
