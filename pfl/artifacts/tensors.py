"""Named tensors and facts in one safetensors file, with the SHA-256 that safetensors lacks.

The metadata are one line of JSON: the facts, and the SHA-256 of them and all tensors. Equal
content, equal bytes. Nothing in such a file is code.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from pfl.artifacts.files import replacing

KEY, SHA256 = "pfl", "sha256"
BROKEN = Exception  # What a file says that is not ours makes nearly anything fail.


def save_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Store tensors, whole or not at all, with ``facts`` that JSON can hold."""
    contiguous = {name: value.contiguous() for name, value in tensors.items()}
    # One key alone: with several, safetensors writes them in a random order.
    metadata = {KEY: json.dumps({**facts, SHA256: _sha256(facts, contiguous)})}
    with replacing(path) as part:
        save_file(contiguous, part, metadata)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What :func:`save_tensors` stored.

    The library opens a file twice, for its header and its numbers. Where a newer file has taken its
    place in between, as after a round of training, that one is read.

    Raises:
        BROKEN: the file is missing, damaged, or something else.
    """
    before = path.stat()
    with safe_open(path, "pt") as file:
        facts = json.loads((file.metadata() or {})[KEY])
        recorded = facts.pop(SHA256)
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    if _sha256(facts, tensors) != recorded:
        if not os.path.samestat(before, path.stat()):
            return load_tensors(path)
        raise ValueError("it was changed after it was written")
    return tensors, facts


def _sha256(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of the facts as sorted JSON and of every tensor with its name, type and shape."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name in sorted(tensors):
        value = tensors[name].cpu()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
