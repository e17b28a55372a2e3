"""train: one federated method, one seed; from images and clients to models and their accuracy."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import stages._training as flags
from pfl.runtime.values import whole_or_auto
from pfl.training.settings import Network, Training
from stages._run import DeviceFlag, PrecisionFlag, Scratch, obeying, run
from stages._section import read_section

if TYPE_CHECKING:
    from pfl.data.samples.clients import Clients
    from pfl.data.tensors.federated_data import FederatedData, Holdout

Method = Annotated[str, typer.Option(help="Name of the method.")]
NetworkFlag = Annotated[Network, typer.Option(help="The network that all of them train.")]
BeginFrom = Annotated[
    Path, typer.Option(help="File of a run to begin from, or a folder with one, or with none.")
]


def _side(text: str) -> int | None:
    return whole_or_auto(text, "rounds.image-size")


ImageSize = Annotated[
    str,
    typer.Option(callback=obeying(_side), help="Side of the images, pixels, or auto: as they are."),
]
Augment = Annotated[bool, typer.Option(help="Random crops and mirroring of training images.")]


def train(
    method: Method, seed: flags.TrainingSeed, settings: flags.MethodSection,
    images: flags.Input, index: flags.Input, clients_file: flags.Input, report: flags.Report,
    out: flags.ModelsFile, network: NetworkFlag, begin_from: BeginFrom, image_size: ImageSize,
    augment: Augment,
    rounds: flags.Rounds, epochs: flags.Epochs, batch_size: flags.BatchSize,
    learning_rate: flags.LearningRate, learning_rate_decay: flags.LearningRateDecay,
    momentum: flags.Momentum, nesterov: flags.Nesterov, weight_decay: flags.WeightDecay,
    fraction: flags.Fraction, client_dropout: flags.ClientDropout,
    validation_fraction: flags.ValidationFraction, evaluate_every: flags.EvaluateEvery,
    test: flags.Test, precision: PrecisionFlag, device: DeviceFlag,
    scratch: Scratch = Path(".scratch"),
) -> None:  # fmt: skip
    """Train all clients' models in federated rounds and test them after the last one.

    A stopped run goes on after its last finished round; the result is the same to the byte.
    """
    training = Training.of("rounds", seed, {
        "rounds": rounds, "epochs": epochs, "batch-size": batch_size,
        "learning-rate": learning_rate, "learning-rate-decay": learning_rate_decay,
        "momentum": momentum, "nesterov": nesterov, "weight-decay": weight_decay,
        "fraction": fraction, "client-dropout": client_dropout,
        "validation-fraction": validation_fraction, "evaluate-every": evaluate_every, "test": test,
        "precision": precision, "device": device,
    })  # fmt: skip
    size = _side(image_size)
    # Imported here because they take seconds, which --help and a wrong flag need not wait for.
    from pfl.runtime.scratch import file_sha256
    from pfl.training.methods.registry import make_algorithm
    from pfl.training.networks import build
    from pfl.training.problem import holdout, local_problem
    from pfl.training.warm_start import beginning_from, checkpoint_at

    checkpoint = checkpoint_at(begin_from)
    values, kept = read_section(settings), holdout(training)
    owners, data = load_data(images, index, clients_file, size, kept, augment)
    _, side, _, channels = data.tests.pooled.stored.shape
    problem = local_problem(
        training,
        beginning_from(partial(build, network, channels, side, data.classes), checkpoint),
        lambda model: make_algorithm(method, model, values, f"train.{method}"),
        data,
    )
    facts = {"method": method, "settings": values, "network": str(network),
             "image-size": image_size, "augment": augment, "evaluate-every": evaluate_every,
             "test": test, "training": training.facts, "holdout": kept.facts,
             "begin-from": file_sha256(checkpoint) if checkpoint else None}  # fmt: skip
    inputs = (images, index, clients_file)
    flags.train_and_report(problem, owners, facts, inputs, report, out, scratch, "train")


def load_data(
    images: Path, index: Path, clients_file: Path, size: int | None, holdout: "Holdout",
    augment: bool,
) -> "tuple[Clients, FederatedData]":  # fmt: skip
    """All images in memory, and who has which."""
    from pfl.data.images.images import open_images
    from pfl.data.samples.clients import read_clients
    from pfl.data.samples.index import read_index
    from pfl.data.tensors.federated_data import federate
    from pfl.data.tensors.pixels import load_pixels, pixel_view

    owners = read_clients(clients_file)
    with open_images(images) as opened:
        pixels = load_pixels(opened, size)
    view_of = partial(pixel_view, augment=augment)
    return owners, federate(read_index(index), owners, pixels, holdout, view_of)


if __name__ == "__main__":
    run(train, "report", "out", alone=False)  # its scratch is locked, for each method and seed
