"""Heads trained by gradients on cached features: the same rounds and methods as for images.

An entry of ``heads`` in ``params.yaml`` says which method trains what: a linear head, or one with a
hidden layer, whose layers a method can then divide.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from pfl.data.tensors.federated_data import FederatedData
from pfl.errors import InputError
from pfl.runtime.rng import stream
from pfl.training.algorithm import Training
from pfl.training.methods.registry import make_algorithm
from pfl.training.networks import build_head
from pfl.training.rounds import Problem

KEYS = ("method", "hidden", "learning-rate", "settings")


@dataclass(frozen=True)
class HeadSettings:
    """How one kind of head is trained.

    Attributes:
        name: of the entry.
        method: a key of :data:`pfl.training.methods.METHODS`.
        hidden: units of the hidden layer, 0 for a linear head.
        learning_rate: of the first round.
        settings: the method's own.
    """

    name: str
    method: str
    hidden: int
    learning_rate: float
    settings: Mapping[str, object]


def head_settings(name: str, values: Mapping[str, object]) -> HeadSettings:
    """The entry ``heads.<name>``, checked.

    Raises:
        InputError: a value is missing, unknown, or of the wrong kind.
    """
    missing, unknown = set(KEYS) - values.keys(), values.keys() - set(KEYS)
    if missing or unknown:
        raise InputError(
            f"Section heads.{name} of the parameters must hold {', '.join(KEYS)}, and nothing else."
        )
    method, hidden, rate, settings = (values[key] for key in KEYS)
    if not isinstance(hidden, int) or isinstance(hidden, bool) or hidden < 0:
        raise InputError(f"heads.{name}.hidden is {hidden}: it must be a whole number from 0.")
    if not isinstance(rate, int | float) or isinstance(rate, bool) or not 0 < rate < float("inf"):
        raise InputError(f"heads.{name}.learning-rate is {rate}: it must be a number above 0.")
    if not isinstance(settings, Mapping):
        raise InputError(f"heads.{name}.settings is {settings}: write names with values, or {{}}.")
    return HeadSettings(name, str(method), hidden, float(rate), settings)


def head_problem(
    head: HeadSettings, training: Training, data: FederatedData, device: torch.device
) -> Problem:
    """The head and its method, for these data; the learning rate is the entry's.

    Raises:
        InputError: the method refuses its settings or the head.
    """
    m = data.tests.pooled.stored.shape[1]
    model = build_head(m, head.hidden, data.classes, stream(training.seed, "network"))
    section = f"heads.{head.name}.settings"
    algorithm = make_algorithm(head.method, model, head.settings, section)
    placed = data.to(device)
    return Problem(
        replace(algorithm, name=head.name),
        replace(training, lr=head.learning_rate),
        model.to(device),
        placed.clients,
        placed.tests,
        device,
    )
