"""A trained method's settings as both sides need them, from the parameters as JSON.

Server and clients build the same :class:`pfl.training.rounds.Problem` from them, but for the
samples: a client has its own alone, and the server knows only how many each client has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import torch

from pfl.data.tensors.client_data import ClientData, TestData
from pfl.data.tensors.federated_data import Holdout
from pfl.data.tensors.pixels import PixelView
from pfl.errors import InputError
from pfl.runtime.devices import training_device
from pfl.runtime.rng import stream
from pfl.training.algorithm import Training
from pfl.training.methods.registry import make_algorithm
from pfl.training.networks import build
from pfl.training.rounds import Problem

# The intervals that numbers of section rounds lie in; "[" and "]" include the end.
RANGES = {
    "rounds": ("[", 1.0, inf, ")"),
    "epochs": ("[", 1.0, inf, ")"),
    "batch-size": ("[", 1.0, inf, ")"),
    "evaluate-every": ("[", 1.0, inf, ")"),
    "learning-rate": ("(", 0.0, inf, ")"),
    "learning-rate-decay": ("(", 0.0, inf, ")"),
    "momentum": ("[", 0.0, 1.0, "]"),
    "weight-decay": ("[", 0.0, inf, ")"),
    "fraction": ("(", 0.0, 1.0, "]"),
    "client-dropout": ("[", 0.0, 1.0, ")"),
    "validation-fraction": ("[", 0.0, 1.0, ")"),
}
WHOLE = ("rounds", "epochs", "batch-size", "evaluate-every")


@dataclass(frozen=True)
class Trained:
    """One method with all its settings.

    Attributes:
        method: its name.
        values: what it alone depends on.
        rounds: section ``rounds`` of the parameters.
        seed: of every random choice.
    """

    method: str
    values: Mapping[str, object]
    rounds: Mapping[str, Any]
    seed: int

    @property
    def training(self) -> Training:
        """How it trains."""
        told = self.rounds
        return Training(
            seed=self.seed, rounds=told["rounds"], epochs=told["epochs"],
            batch_size=told["batch-size"], lr=told["learning-rate"],
            lr_decay=told["learning-rate-decay"], momentum=told["momentum"],
            nesterov=told["nesterov"], weight_decay=told["weight-decay"],
            fraction=told["fraction"], client_dropout=told["client-dropout"],
            bf16=told["precision"] == "bf16",
        )  # fmt: skip

    @property
    def holdout(self) -> Holdout:
        """What a client keeps from training."""
        return Holdout(self.rounds["validation-fraction"], self.seed)

    @property
    def image_size(self) -> int | None:
        """Side of the images in pixels; None as they are."""
        size = self.rounds["image-size"]
        return None if size == "auto" else int(size)


def trained(sections: Mapping[str, Any], method: str, seed: int) -> Trained:
    """The method's settings from the pipeline's parameters.

    Raises:
        InputError: it is not there, or a value is out of its range.
    """
    rounds, train = sections.get("rounds"), sections.get("train")
    if not isinstance(rounds, dict) or not isinstance(train, dict) or method not in train:
        raise InputError(
            f"The parameters have no section rounds or no train.{method}: set `method` to fedhip "
            "or to one of the section train."
        )
    for name in RANGES:
        _check_range(name, rounds.get(name))
    return Trained(method, train[method] or {}, rounds, seed)


def _check_range(name: str, value: object) -> None:
    left, low, high, right = RANGES[name]
    kinds = int if name in WHOLE else int | float
    if isinstance(value, kinds) and not isinstance(value, bool):
        number = float(value)
        inside = low < number < high
        if inside or (number == low and left == "[") or (number == high and right == "]"):
            return
    raise InputError(
        f"rounds.{name} is {value}: choose a {'whole ' if name in WHOLE else ''}number in "
        f"{left}{low:g}, {high:g}{right}."
    )


@dataclass(frozen=True)
class Shape:
    """What the network depends on: image channels and side, and the number of classes."""

    channels: int
    side: int
    classes: int


def problem_of(
    told: Trained, shape: Shape, clients: Sequence[ClientData], tests: TestData, device: str
) -> Problem:
    """The network and the method, for these data."""
    training = told.training
    weights = stream(training.seed, "network")
    model = build(told.rounds["network"], shape.channels, shape.side, shape.classes, weights)
    algorithm = make_algorithm(told.method, model, dict(told.values))
    place = training_device(device)
    kept = tuple(data.to(place) for data in clients)
    return Problem(algorithm, training, model.to(place), kept, tests.to(place), place)


def sizes_only(sizes: Sequence[int]) -> tuple[ClientData, ...]:
    """Stand-ins for the clients' data where only their numbers of samples are known."""
    return tuple(
        ClientData(
            stored=torch.zeros((size, 0, 0, 1), dtype=torch.uint8),
            label=torch.zeros(1, dtype=torch.int64).expand(size),
            view=PixelView(torch.zeros(1), torch.ones(1), augment=False),
        )
        for size in sizes
    )


def no_tests() -> TestData:
    """Where nothing is tested."""
    return TestData((), sizes_only([0])[0], (), None)
