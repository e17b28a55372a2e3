"""A federation on disk: between rounds, so that a killed run goes on, and as the result of a run.

One safetensors file holds ``shared/<entry>``, and for each client ``private/<client>/<entry>`` (the
private elements by its last round's split, in row-major order) and ``memory/<client>/<name>``. Its
metadata are one line of JSON: the number of finished rounds, each client's last round, and what
else the caller wants to find there. Equal content, equal bytes.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pfl.artifacts import replacing
from pfl.errors import InputError
from pfl.rounds import Federation, Member

KEY = "pfl"


def save_federation(path: Path, federation: Federation, facts: Mapping[str, Any]) -> None:
    """Store a federation, whole or not at all, with ``facts`` that JSON can hold."""
    tensors = {f"shared/{name}": value for name, value in federation.shared.items()}
    for client, member in enumerate(federation.members):
        for kind, values in (("private", member.private), ("memory", member.memory)):
            tensors |= {f"{kind}/{client}/{name}": value for name, value in values.items()}
    last = [member.last for member in federation.members]
    # One key alone: with several, safetensors writes them in a random order.
    metadata = {KEY: json.dumps({**facts, "round": federation.round, "last": last})}
    contiguous = {name: value.contiguous() for name, value in tensors.items()}
    with replacing(path) as part:
        save_file(contiguous, part, metadata)


def load_federation(path: Path) -> tuple[Federation, dict[str, Any]]:
    """What :func:`save_federation` stored, and its facts.

    Raises:
        InputError: the file is missing, damaged, or something else.
    """
    shared: dict[str, Tensor] = {}
    try:
        with safe_open(path, "pt") as file:
            facts = json.loads((file.metadata() or {})[KEY])
            kept: list[dict[str, dict[str, Tensor]]] = [
                {"private": {}, "memory": {}} for _ in facts["last"]
            ]
            for key in file.keys():  # noqa: SIM118 (it is no mapping)
                kind, _, name = key.partition("/")
                if kind == "shared":
                    shared[name] = file.get_tensor(key)
                else:
                    client, _, name = name.partition("/")
                    kept[int(client)][kind][name] = file.get_tensor(key)
    except (OSError, SafetensorError, KeyError, ValueError, IndexError) as error:
        raise InputError(
            f"{path} is missing, damaged or no state of a federation ({error}): delete it and run "
            "`dvc repro`, which makes it again."
        ) from error
    members = tuple(
        Member(last, **values) for last, values in zip(facts["last"], kept, strict=True)
    )
    return Federation(facts["round"], shared, members), facts
