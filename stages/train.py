"""train: one federated method, one seed; from images and clients to models and their accuracy."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pfl.errors import InputError
from stages._flags import Device, Precision
from stages._run import LARGEST_SEED, finite, positive, run
from stages._section import read_section

if TYPE_CHECKING:
    import torch

    from pfl.clients import Clients
    from pfl.federated_data import FederatedData, Holdout
    from pfl.rounds import Problem, Training


Option = typer.Option
Method = Annotated[str, Option(help="Name of the method.")]
Seed = Annotated[
    int, Option(min=0, max=LARGEST_SEED, help="Of weights, batches, participants, validation part.")
]
Settings = Annotated[
    str, Option(help="FILE:SECTION of a YAML file that has the settings of this method alone.")
]
Network = Annotated[str, Option(help="lenet5, resnet18, resnet34, resnet20 or resnet32.")]
Size = Annotated[str, Option(help="Side of the images, pixels, or auto: as they are.")]
Augment = Annotated[bool, Option(help="Random crops and mirroring of training images.")]
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
Group = Annotated[str, Option(help="Name of a group held out for the external test, or empty.")]
Every = Annotated[int, Option(min=1, help="Rounds between tests of the clients' own models.")]
Runs = Annotated[Precision, Option(help="fp32 or bf16.")]
Place = Annotated[Device, Option(help="auto, cpu or cuda.")]
Scratch = Annotated[Path, Option(help="Folder for unfinished work, which a rerun takes up.")]
Input = Annotated[Path, Option(help="An artifact to read.")]
Report = Annotated[Path, Option(help="Output folder: rounds.csv, per_client.csv, metrics.json.")]
Models = Annotated[Path, Option(help="Output: the final state of the server and the clients.")]


def train(
    method: Method, seed: Seed, settings: Settings, images: Input, index: Input,
    clients_file: Input, report: Report, out: Models, network: Network, image_size: Size,
    augment: Augment, rounds: Rounds, epochs: Epochs, batch_size: Batch, learning_rate: Rate,
    learning_rate_decay: Decay, momentum: Momentum, nesterov: Nesterov, weight_decay: Weights,
    fraction: Fraction, client_dropout: Lost, validation_fraction: Kept, external_group: Group,
    evaluate_every: Every, precision: Runs, device: Place, scratch: Scratch = Path(".scratch"),
) -> None:  # fmt: skip
    """Train all clients' models in federated rounds and test them after the last one.

    A stopped run goes on after its last finished round; the result is the same to the byte.
    """
    _check_shares(fraction, client_dropout, validation_fraction)
    # Imported here because they take seconds, which --help and a wrong flag need not wait for.
    from pfl.devices import training_device
    from pfl.federated_data import Holdout
    from pfl.rounds import Training

    training = Training(
        seed=seed, rounds=rounds, epochs=epochs, batch_size=batch_size, lr=learning_rate,
        lr_decay=learning_rate_decay, momentum=momentum, nesterov=nesterov,
        weight_decay=weight_decay, fraction=fraction, client_dropout=client_dropout,
        bf16=precision is Precision.bf16,
    )  # fmt: skip
    values = read_section(settings)
    holdout = Holdout(validation_fraction, external_group, seed)
    held, data = _load(images, index, clients_file, image_size, holdout, augment)
    problem = _problem(method, values, network, training, data, training_device(device.value))
    facts = {"method": method, "settings": values, "network": network, "image-size": image_size,
             "augment": augment, "evaluate-every": evaluate_every, "training": asdict(training),
             "holdout": asdict(holdout)}  # fmt: skip
    key = _key(facts, (images, index, clients_file), problem.device.type)
    _complete(problem, held, facts, _Places(scratch, key, report, out))


@dataclass(frozen=True)
class _Places:
    """Where a run works and what it writes."""

    scratch: Path
    key: str
    report: Path
    out: Path


def _check_shares(fraction: float, client_dropout: float, validation_fraction: float) -> None:
    """Refuse the ends of [0, 1] that leave nobody to train or nothing to train with."""
    for name, value, fits in (
        ("fraction", fraction, fraction > 0),
        ("client-dropout", client_dropout, client_dropout < 1),
        ("validation-fraction", validation_fraction, validation_fraction < 1),
    ):
        if not fits:
            raise InputError(f"rounds.{name} is {value}, which leaves nothing to train with.")


def _load(
    images: Path, index: Path, clients_file: Path, size: str, holdout: "Holdout", augment: bool
) -> "tuple[Clients, FederatedData]":
    """All images in memory, dealt to the clients."""
    from pfl.clients import read_clients
    from pfl.federated_data import federate
    from pfl.images import open_images
    from pfl.index import read_index
    from pfl.training_data import load_pixels, pixel_view

    if size != "auto" and not (size.isdecimal() and int(size) > 0):
        raise typer.BadParameter(f"'{size}' must be auto or pixels.", param_hint="--image-size")
    held = read_clients(clients_file)
    with open_images(images) as opened:
        pixels = load_pixels(opened, None if size == "auto" else int(size))
    view_of = partial(pixel_view, augment=augment)
    return held, federate(read_index(index), held, pixels, holdout, view_of)


def _problem(
    method: str, values: dict[str, object], network: str, training: "Training",
    data: "FederatedData", device: "torch.device",
) -> "Problem":  # fmt: skip
    """The network and the method, for these data."""
    from pfl.methods import make_algorithm
    from pfl.networks import build
    from pfl.rounds import Problem
    from pfl.streams import stream

    _, side, _, channels = data.tests.pooled.stored.shape
    model = build(network, channels, side, data.classes, stream(training.seed, "network"))
    algorithm = make_algorithm(method, model, values)
    clients = tuple(client.to(device) for client in data.clients)
    return Problem(algorithm, training, model.to(device), clients, data.tests.to(device), device)


def _key(facts: Mapping[str, object], inputs: tuple[Path, ...], device: str) -> str:
    """Name of this piece of work: whatever may change a bit of the result is in it."""
    from importlib.metadata import version

    from pfl.scratch import code_sha256, file_sha256, fingerprint

    stack = {name: version(name) for name in ("numpy", "torch")}
    hashes = [file_sha256(path) for path in inputs]
    return fingerprint({**facts, **stack, "inputs": hashes, "code": code_sha256(),
                        "device": device})  # fmt: skip


def _complete(problem: "Problem", held: "Clients", facts: dict[str, Any], places: _Places) -> None:
    """Play all rounds in scratch, then write what is to be kept."""
    from pfl.artifacts import write_text
    from pfl.checkpoint import save_federation
    from pfl.cores import cores
    from pfl.experiment import complete
    from pfl.scratch import scratch
    from pfl.training_report import clients_csv, metrics, rounds_csv

    name = f"train-{facts['method']}-{problem.training.seed}"
    processes = cores() if problem.device.type == "cpu" else 1
    with scratch(places.scratch, name, places.key) as folder:
        result = complete(problem, folder, processes, facts["evaluate-every"])
        told = metrics(problem, result) | {"settings": facts["settings"]}
        write_text(places.report / "rounds.csv", rounds_csv(result.history))
        write_text(places.report / "per_client.csv", clients_csv(problem, held, result))
        text = json.dumps(told, indent=2, allow_nan=False)
        write_text(places.report / "metrics.json", text + "\n")
        save_federation(places.out, result.federation, facts)


if __name__ == "__main__":
    run(train, "report", "out", alone=False)  # its scratch is locked, for each method and seed
