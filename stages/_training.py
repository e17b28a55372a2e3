"""What the stages that train in federated rounds have in common: flags, keys and outputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pfl.errors import InputError
from stages._flags import Device
from stages._run import LARGEST_SEED, finite, positive

if TYPE_CHECKING:
    from pfl.data.samples.clients import Clients
    from pfl.training.rounds import Problem

Option = typer.Option
Seed = Annotated[
    int, Option(min=0, max=LARGEST_SEED, help="Of weights, batches, participants, validation part.")
]
Settings = Annotated[
    str, Option(help="FILE:SECTION of a YAML file that has the settings of this method alone.")
]
Rounds = Annotated[int, Option(min=1, help="Federated rounds T.")]
Epochs = Annotated[int, Option(min=1, help="Passes over a client's data in one round.")]
Batch = Annotated[int, Option(min=1, help="Samples a step.")]
Rate = Annotated[float, Option(callback=positive, help="Learning rate of the first round.")]
Decay = Annotated[float, Option(callback=positive, help="Its factor after each round.")]
Momentum = Annotated[float, Option(min=0.0, max=1.0, help="Of SGD.")]
Nesterov = Annotated[bool, Option(help="Whether the momentum is Nesterov's.")]
Weights = Annotated[float, Option(min=0.0, callback=finite, help="Weight decay.")]
Fraction = Annotated[float, Option(min=0.0, max=1.0, help="Share of clients a round, above 0.")]
Lost = Annotated[float, Option(min=0.0, max=1.0, help="Chance that a client is lost, below 1.")]
Kept = Annotated[float, Option(min=0.0, max=1.0, help="Training share for validation, below 1.")]
Every = Annotated[int, Option(min=1, help="Rounds between tests of the clients' own models.")]
Place = Annotated[Device, Option(help="auto, cpu or cuda.")]
Scratch = Annotated[Path, Option(help="Folder for unfinished work, which a rerun takes up.")]
Input = Annotated[Path, Option(help="An artifact to read.")]
Report = Annotated[Path, Option(help="Output folder: rounds.csv, per_client.csv, metrics.json.")]
Models = Annotated[Path, Option(help="Output: the final state of the server and the clients.")]


@dataclass(frozen=True)
class Places:
    """Where a run works and what it writes.

    Attributes:
        stage: that it belongs to.
        scratch: folder for unfinished work.
        key: name of this piece of work.
        report: output folder of tables.
        out: output file of the final state.
    """

    stage: str
    scratch: Path
    key: str
    report: Path
    out: Path


def check_shares(
    section: str, fraction: float, client_dropout: float, validation_fraction: float
) -> None:
    """Refuse the ends of [0, 1] that leave nobody to train or nothing to train with."""
    for name, value, fits in (
        ("fraction", fraction, fraction > 0),
        ("client-dropout", client_dropout, client_dropout < 1),
        ("validation-fraction", validation_fraction, validation_fraction < 1),
    ):
        if not fits:
            raise InputError(f"{section}.{name} is {value}, which leaves nothing to train with.")


def work_key(facts: Mapping[str, object], inputs: tuple[Path, ...], device: str) -> str:
    """Name of this piece of work: whatever may change a bit of the result is in it."""
    from importlib.metadata import version

    from pfl.runtime.scratch import code_sha256, file_sha256, fingerprint

    stack = {name: version(name) for name in ("numpy", "torch")}
    hashes = [file_sha256(path) for path in inputs]
    return fingerprint({**facts, **stack, "inputs": hashes, "code": code_sha256(),
                        "device": device})  # fmt: skip


def complete_run(
    problem: "Problem", held: "Clients", facts: dict[str, Any], places: Places
) -> None:
    """Play all rounds in scratch, then write what is to be kept."""
    from pfl.artifacts.files import write_text
    from pfl.artifacts.json import json_text
    from pfl.evaluation.metrics import HEAD_PREFIX
    from pfl.runtime.machine import cores
    from pfl.runtime.scratch import scratch
    from pfl.training.checkpoint import save_federation
    from pfl.training.report import rounds_csv, run_csv, run_metrics
    from pfl.training.run import complete

    name = f"{places.stage}-{problem.algorithm.name}-{problem.training.seed}"
    processes = cores() if problem.device.type == "cpu" else 1
    with scratch(places.scratch, name, places.key) as folder:
        result = complete(problem, folder, processes, facts["evaluate-every"])
        method = f"{HEAD_PREFIX}{facts['head']}" if "head" in facts else facts["method"]
        told = run_metrics(method, problem, result, facts["settings"])
        write_text(places.report / "rounds.csv", rounds_csv(result.history))
        write_text(places.report / "per_client.csv", run_csv(problem, held, result))
        write_text(places.report / "metrics.json", json_text(told))
        save_federation(places.out, result.federation, facts)
