"""The settings of a run: those of Flower's run config, and the pipeline's from its ``params.yaml``.

The server reads the parameter file, which stays their only home, and tells each client what it
needs as JSON. Sites need no copy, and none can train with other settings than the rest.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.app import UserConfig
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pfl.errors import InputError
from pfl.runtime.values import Range, checked

Section = Mapping[str, Any]
FEDHIP = "fedhip"


@dataclass(frozen=True)
class RunSettings:
    """The run config (``flower/pyproject.toml``), by the names that it has there.

    Attributes:
        params: the pipeline's parameter file.
        method: ``fedhip``, or one of the parameter file's section ``train``.
        seed: of trained methods.
        clients: how many to wait for before the start.
        wait_seconds: at most so long.
        reply_seconds: how long a client may take for an answer.
        on_fault: ``stop``, or ``go-on`` without the client at fault.
        fingerprint: of the features or images that every client must have; empty: what most have.
        state: folder that keeps each client's upload, so that others can join and leave later.
        leave: numbers of the clients that leave.
        report: folder for the results.
    """

    params: Path
    method: str
    seed: int
    clients: int
    wait_seconds: float
    reply_seconds: float
    on_fault: str
    fingerprint: str
    state: Path | None
    leave: tuple[int, ...]
    report: Path


def run_settings(config: UserConfig) -> RunSettings:
    """Read the run config.

    Raises:
        InputError: a value cannot be meant.
    """
    fault, state, leave = (str(config[name]) for name in ("on-fault", "state", "leave"))
    if fault not in ("stop", "go-on"):
        raise InputError(f"on-fault is '{fault}': choose stop or go-on.")
    numbers = [part.strip() for part in leave.split(",") if part.strip()]
    if not all(part.isdecimal() for part in numbers):
        raise InputError(f"leave is '{leave}': give numbers of clients with commas between.")
    return RunSettings(
        params=Path(str(config["params"])),
        method=str(config["method"]),
        seed=int(config["seed"]),
        clients=int(config["clients"]),
        wait_seconds=float(config["wait-seconds"]),
        reply_seconds=float(config["reply-seconds"]),
        on_fault=fault,
        fingerprint=str(config["fingerprint"]),
        state=Path(state) if state else None,
        leave=tuple(int(part) for part in numbers),
        report=Path(str(config["report"])),
    )


def read_parameters(path: Path) -> Section:
    """All sections of the pipeline's parameter file.

    Raises:
        InputError: there is none.
    """
    try:
        sections: Any = YAML(typ="safe", pure=True).load(path)
    except (OSError, YAMLError) as error:
        raise InputError(
            f"The parameter file {path.absolute()} cannot be read ({error}): set `params` in the "
            "run config to the path of the pipeline's params.yaml on the server."
        ) from error
    if not isinstance(sections, dict):
        raise InputError(f"{path} has no sections: it must be the pipeline's params.yaml.")
    return sections


def to_json(values: object) -> str:
    """Settings as one string that a client reads back; numbers keep every bit."""
    return json.dumps(values, sort_keys=True, allow_nan=False)


def read_json(text: object) -> dict[str, Any]:
    """Inverse of :func:`to_json`, for sections."""
    return json.loads(str(text))


def check_plain_sums(sections: Section) -> None:
    """Refuse what the pipeline can do with the sums and this adapter cannot.

    To leave noise out without a word would publish what was to be private.

    Raises:
        InputError: a view of the features or private sums are asked for.
    """
    view = sections.get("features") or {}
    if view.get("project") or view.get("lift") or view.get("norm", "none") != "none":
        raise InputError(
            "The section features of the parameters has a view, which runs over sites do not have "
            "yet: set project and lift to 0 and norm to none."
        )
    privacy = sections["aggregate"].get("privacy") or {}
    if privacy.get("epsilon", "none") != "none":
        raise InputError(
            "aggregate.privacy.epsilon is set, but runs over sites cannot make private sums yet: "
            "set it to none, if exact sums may be sent back to all clients."
        )


def left_out_clients(section: Section) -> frozenset[int]:
    """Which clients take no part, by ``section`` aggregate: a list, or the only one's number.

    Raises:
        InputError: it is something else.
    """
    value = section.get("leave-out", [])
    clients = value if isinstance(value, list) else [value]
    return frozenset(checked("aggregate.leave-out", client, int, Range(0)) for client in clients)
