"""train: one federated method, one seed; from images and clients to models and their accuracy."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stages._flags import Precision
from stages._run import run
from stages._section import read_section
from stages._training import (
    Batch,
    Decay,
    Epochs,
    Every,
    Fraction,
    Input,
    Kept,
    Lost,
    Models,
    Momentum,
    Nesterov,
    Place,
    Places,
    Rate,
    Report,
    Rounds,
    Scratch,
    Seed,
    Settings,
    Weights,
    check_shares,
    complete_run,
    work_key,
)  # fmt: skip

if TYPE_CHECKING:
    import torch

    from pfl.data.samples.clients import Clients
    from pfl.data.tensors.federated_data import FederatedData, Holdout
    from pfl.training.rounds import Problem, Training

Option = typer.Option
Method = Annotated[str, Option(help="Name of the method.")]
Network = Annotated[str, Option(help="lenet5, resnet18, resnet34, resnet20 or resnet32.")]
Size = Annotated[str, Option(help="Side of the images, pixels, or auto: as they are.")]
Augment = Annotated[bool, Option(help="Random crops and mirroring of training images.")]
Runs = Annotated[Precision, Option(help="fp32 or bf16.")]


def train(
    method: Method, seed: Seed, settings: Settings, images: Input, index: Input,
    clients_file: Input, report: Report, out: Models, network: Network, image_size: Size,
    augment: Augment, rounds: Rounds, epochs: Epochs, batch_size: Batch, learning_rate: Rate,
    learning_rate_decay: Decay, momentum: Momentum, nesterov: Nesterov, weight_decay: Weights,
    fraction: Fraction, client_dropout: Lost, validation_fraction: Kept, evaluate_every: Every,
    precision: Runs, device: Place, scratch: Scratch = Path(".scratch"),
) -> None:  # fmt: skip
    """Train all clients' models in federated rounds and test them after the last one.

    A stopped run goes on after its last finished round; the result is the same to the byte.
    """
    check_shares("rounds", fraction, client_dropout, validation_fraction)
    # Imported here because they take seconds, which --help and a wrong flag need not wait for.
    from pfl.data.tensors.federated_data import Holdout
    from pfl.runtime.devices import training_device
    from pfl.training.rounds import Training

    training = Training(
        seed=seed, rounds=rounds, epochs=epochs, batch_size=batch_size, lr=learning_rate,
        lr_decay=learning_rate_decay, momentum=momentum, nesterov=nesterov,
        weight_decay=weight_decay, fraction=fraction, client_dropout=client_dropout,
        bf16=precision is Precision.bf16,
    )  # fmt: skip
    values = read_section(settings)
    holdout = Holdout(validation_fraction, seed)
    held, data = _load(images, index, clients_file, image_size, holdout, augment)
    problem = _problem(method, values, network, training, data, training_device(device.value))
    facts = {"method": method, "settings": values, "network": network, "image-size": image_size,
             "augment": augment, "evaluate-every": evaluate_every, "training": asdict(training),
             "holdout": asdict(holdout)}  # fmt: skip
    key = work_key(facts, (images, index, clients_file), problem.device.type)
    complete_run(problem, held, facts, Places("train", scratch, key, report, out))


def _load(
    images: Path, index: Path, clients_file: Path, size: str, holdout: "Holdout", augment: bool
) -> "tuple[Clients, FederatedData]":
    """All images in memory, dealt to the clients."""
    from pfl.data.images.images import open_images
    from pfl.data.samples.clients import read_clients
    from pfl.data.samples.index import read_index
    from pfl.data.tensors.federated_data import federate
    from pfl.data.tensors.pixels import load_pixels, pixel_view

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
    from pfl.runtime.rng import stream
    from pfl.training.methods.registry import make_algorithm
    from pfl.training.networks import build
    from pfl.training.rounds import Problem

    _, side, _, channels = data.tests.pooled.stored.shape
    model = build(network, channels, side, data.classes, stream(training.seed, "network"))
    algorithm = make_algorithm(method, model, values)
    placed = data.to(device)
    return Problem(algorithm, training, model.to(device), placed.clients, placed.tests, device)


if __name__ == "__main__":
    run(train, "report", "out", alone=False)  # its scratch is locked, for each method and seed
