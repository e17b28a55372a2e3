"""A federation on disk: between rounds, so that a killed run goes on, and as the result of a run.

One safetensors file holds ``shared/<entry>``, and for each client ``private/<client>/<entry>`` (the
private elements by its last round's split, in row-major order) and ``memory/<client>/<name>``. Its
facts are the number of finished rounds, each client's last round, and what else the caller wants to
find there. :mod:`pfl.artifacts.tensors` checks all of it. Equal content, equal bytes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from pfl.artifacts.tensors import BROKEN, load_tensors, save_tensors
from pfl.errors import InputError
from pfl.training.rounds import Federation, Member


def save_federation(path: Path, federation: Federation, facts: Mapping[str, Any]) -> None:
    """Store a federation, whole or not at all, with ``facts`` that JSON can hold."""
    tensors = {f"shared/{name}": value for name, value in federation.shared.items()}
    for client, member in enumerate(federation.members):
        for kind, values in (("private", member.private), ("memory", member.memory)):
            tensors |= {f"{kind}/{client}/{name}": value for name, value in values.items()}
    last = [member.last for member in federation.members]
    save_tensors(path, tensors, {**facts, "round": federation.round, "last": last})


def load_federation(path: Path) -> tuple[Federation, dict[str, Any]]:
    """What :func:`save_federation` stored, and its facts.

    Raises:
        InputError: the file is missing, damaged, or something else.
    """
    try:
        tensors, facts = load_tensors(path)
        return _federation(facts, tensors), facts
    except BROKEN as error:
        raise InputError(
            f"{path} is missing, damaged or no state of a federation ({error}): delete it and run "
            "`dvc repro`, which makes it again."
        ) from error


def _federation(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Federation:
    shared: dict[str, Tensor] = {}
    own: list[dict[str, dict[str, Tensor]]] = [{"private": {}, "memory": {}} for _ in facts["last"]]
    for key, value in tensors.items():
        kind, _, name = key.partition("/")
        if kind == "shared":
            shared[name] = value
        else:
            client, _, name = name.partition("/")
            own[int(client)][kind][name] = value
    members = (Member(last, **values) for last, values in zip(facts["last"], own, strict=True))
    return Federation(facts["round"], shared, tuple(members))
