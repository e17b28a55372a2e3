"""train: one federated method, one seed; from images and clients to models and their accuracy."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pfl.runtime.values import whole_or_auto
from pfl.training.settings import Training
from stages._run import run
from stages._section import read_section
from stages._training import (
    BatchSize,
    ClientDropout,
    DeviceFlag,
    Epochs,
    EvaluateEvery,
    Fraction,
    Input,
    LearningRate,
    LearningRateDecay,
    MethodSection,
    Models,
    Momentum,
    Nesterov,
    Option,
    Places,
    PrecisionFlag,
    Report,
    Rounds,
    Scratch,
    TrainingSeed,
    ValidationFraction,
    WeightDecay,
    train_and_report,
)  # fmt: skip

if TYPE_CHECKING:
    from pfl.data.samples.clients import Clients
    from pfl.data.tensors.federated_data import FederatedData, Holdout

Method = Annotated[str, Option(help="Name of the method.")]
Network = Annotated[str, Option(help="lenet5, resnet18, resnet34, resnet20 or resnet32.")]
ImageSize = Annotated[str, Option(help="Side of the images, pixels, or auto: as they are.")]
Augment = Annotated[bool, Option(help="Random crops and mirroring of training images.")]


def train(
    method: Method, seed: TrainingSeed, settings: MethodSection, images: Input, index: Input,
    clients_file: Input, report: Report, out: Models, network: Network, image_size: ImageSize,
    augment: Augment, rounds: Rounds, epochs: Epochs, batch_size: BatchSize,
    learning_rate: LearningRate, learning_rate_decay: LearningRateDecay, momentum: Momentum,
    nesterov: Nesterov, weight_decay: WeightDecay, fraction: Fraction,
    client_dropout: ClientDropout, validation_fraction: ValidationFraction,
    evaluate_every: EvaluateEvery, precision: PrecisionFlag, device: DeviceFlag,
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
        "validation-fraction": validation_fraction, "evaluate-every": evaluate_every,
        "precision": precision, "device": device,
    })  # fmt: skip
    size = whole_or_auto(image_size, "rounds.image-size")
    # Imported here because they take seconds, which --help and a wrong flag need not wait for.
    from pfl.training.methods.registry import make_algorithm
    from pfl.training.networks import build
    from pfl.training.problem import holdout, local_problem

    values, kept = read_section(settings), holdout(training)
    owners, data = _load(images, index, clients_file, size, kept, augment)
    _, side, _, channels = data.tests.pooled.stored.shape
    problem = local_problem(
        training,
        partial(build, network, channels, side, data.classes),
        lambda model: make_algorithm(method, model, values, f"train.{method}"),
        data,
    )
    facts = {"method": method, "settings": values, "network": network, "image-size": image_size,
             "augment": augment, "evaluate-every": evaluate_every, "training": training.facts,
             "holdout": kept.facts}  # fmt: skip
    inputs = (images, index, clients_file)
    train_and_report(problem, owners, facts, Places("train", scratch, inputs, report, out))


def _load(
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
