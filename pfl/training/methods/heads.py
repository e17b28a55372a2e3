"""Heads trained by gradients on cached features: the same rounds and methods as for images.

An entry of ``heads`` in ``params.yaml`` says which method trains what: a linear head, or one with a
hidden layer, whose layers a method can then divide.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import nn

from pfl.data.tensors.federated_data import FederatedData
from pfl.errors import InputError
from pfl.runtime.values import Precision, checked
from pfl.training.algorithm import Algorithm
from pfl.training.methods.registry import METHODS, make_algorithm
from pfl.training.networks import build_head
from pfl.training.problem import LocalProblem, local_problem
from pfl.training.settings import FROM_0, Training

KEYS = ("method", "hidden", "learning-rate", "settings")


@dataclass(frozen=True)
class HeadSettings:
    """How one kind of head is trained.

    Attributes:
        name: of the entry.
        method: a key of :data:`pfl.training.methods.registry.METHODS`.
        hidden: units of the hidden layer, 0 for a linear head.
        learning_rate: of the first round, as the entry has it: :class:`Training` checks it.
        settings: the method's own.
    """

    name: str
    method: str
    hidden: int
    learning_rate: object
    settings: Mapping[str, object]


def head_settings(name: str, values: Mapping[str, Any]) -> HeadSettings:
    """The entry ``heads.<name>``, checked but for the learning rate.

    Raises:
        InputError: a value is missing, unknown, or of the wrong kind.
    """
    if set(KEYS) != values.keys():
        raise InputError(
            f"Section heads.{name} of the parameters must hold {', '.join(KEYS)}, and nothing else."
        )
    method, hidden, rate, settings = (values[key] for key in KEYS)
    if method not in tuple(METHODS):
        raise InputError(f"heads.{name}.method is {method}: choose from {', '.join(METHODS)}.")
    checked(f"heads.{name}.hidden", hidden, int, FROM_0)
    if not isinstance(settings, Mapping):
        raise InputError(f"heads.{name}.settings is {settings}: write names with values, or {{}}.")
    return HeadSettings(name, str(method), hidden, rate, settings)


def head_training(head: HeadSettings, seed: int, values: Mapping[str, object]) -> Training:
    """How it is trained: section ``head-rounds``, with the learning rate of the entry.

    Raises:
        InputError: a value is missing, of another kind or out of its range.
    """
    own = {"learning-rate": head.learning_rate, "precision": Precision.fp32}
    return Training.of("head-rounds", seed, {**values, **own}, f"heads.{head.name}")


def head_problem(head: HeadSettings, training: Training, data: FederatedData) -> LocalProblem:
    """The head and its method, for these data.

    Raises:
        InputError: the method refuses its settings or the head.
    """

    def algorithm(model: nn.Module) -> Algorithm:
        section = f"heads.{head.name}.settings"
        return replace(make_algorithm(head.method, model, head.settings, section), name=head.name)

    m = data.tests.pooled.stored.shape[1]
    return local_problem(
        training, partial(build_head, m, head.hidden, data.classes), algorithm, data
    )
