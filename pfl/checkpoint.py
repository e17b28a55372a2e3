"""A federation on disk: between rounds, so that a killed run goes on, and as the result of a run.

One safetensors file holds ``shared/<entry>``, and for each client ``private/<client>/<entry>`` (the
private elements by its last round's split, in row-major order) and ``memory/<client>/<name>``. Its
metadata are one line of JSON: the number of finished rounds, each client's last round, what else
the caller wants to find there, and the SHA-256 of all of it, since safetensors has no checksum.
Equal content, equal bytes.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from pfl.artifacts import replacing
from pfl.errors import InputError
from pfl.rounds import Federation, Member

KEY, SHA256 = "pfl", "sha256"


def save_federation(path: Path, federation: Federation, facts: Mapping[str, Any]) -> None:
    """Store a federation, whole or not at all, with ``facts`` that JSON can hold."""
    tensors = {f"shared/{name}": value for name, value in federation.shared.items()}
    for client, member in enumerate(federation.members):
        for kind, values in (("private", member.private), ("memory", member.memory)):
            tensors |= {f"{kind}/{client}/{name}": value for name, value in values.items()}
    last = [member.last for member in federation.members]
    told = {**facts, "round": federation.round, "last": last}
    contiguous = {name: value.contiguous() for name, value in tensors.items()}
    # One key alone: with several, safetensors writes them in a random order.
    metadata = {KEY: json.dumps(told | {SHA256: _sha256(told, contiguous)})}
    with replacing(path) as part:
        save_file(contiguous, part, metadata)


def load_federation(path: Path) -> tuple[Federation, dict[str, Any]]:
    """What :func:`save_federation` stored, and its facts.

    Raises:
        InputError: the file is missing, damaged, or something else.
    """
    try:
        with safe_open(path, "pt") as file:
            facts = json.loads((file.metadata() or {})[KEY])
            recorded = facts.pop(SHA256)
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        if _sha256(facts, tensors) != recorded:
            raise ValueError("it was changed after it was written")
        return _federation(facts, tensors), facts
    except Exception as error:  # What a file says that is not ours makes nearly anything fail.
        raise InputError(
            f"{path} is missing, damaged or no state of a federation ({error}): delete it and run "
            "`dvc repro`, which makes it again."
        ) from error


def _federation(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Federation:
    shared: dict[str, Tensor] = {}
    kept: list[dict[str, dict[str, Tensor]]] = [
        {"private": {}, "memory": {}} for _ in facts["last"]
    ]
    for key, value in tensors.items():
        kind, _, name = key.partition("/")
        if kind == "shared":
            shared[name] = value
        else:
            client, _, name = name.partition("/")
            kept[int(client)][kind][name] = value
    members = tuple(
        Member(last, **values) for last, values in zip(facts["last"], kept, strict=True)
    )
    return Federation(facts["round"], shared, members)


def _sha256(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of the facts as sorted JSON and of every tensor with its name, type and shape."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name in sorted(tensors):
        value = tensors[name].cpu()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
