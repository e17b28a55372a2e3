"""Heads trained by gradients, as ``params.yaml`` has them: the entries of its section ``heads``.

No PyTorch is imported, so that a wrong entry is told at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pfl.errors import InputError
from pfl.runtime.values import Precision, checked
from pfl.training.methods.settings import RECORDS
from pfl.training.settings import FROM_0, RATE, SETTINGS, Training

METHOD, HIDDEN, OWN = "method", "hidden", "settings"
# Kinds of the values beside the method, which is one of a table, and its own settings.
NUMBERS = {HIDDEN: (int, FROM_0), RATE: SETTINGS[RATE]}
KEYS = (METHOD, *NUMBERS, OWN)


@dataclass(frozen=True)
class HeadSettings:
    """How one kind of head is trained.

    Attributes:
        name: of the entry.
        method: a key of :data:`pfl.training.methods.settings.RECORDS`.
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
    if method not in tuple(RECORDS):
        raise InputError(f"heads.{name}.method is {method}: choose from {', '.join(RECORDS)}.")
    checked(f"heads.{name}.hidden", hidden, *NUMBERS[HIDDEN])
    if not isinstance(settings, Mapping):
        raise InputError(f"heads.{name}.settings is {settings}: write names with values, or {{}}.")
    return HeadSettings(name, str(method), hidden, rate, settings)


def head_training(head: HeadSettings, seed: int, values: Mapping[str, object]) -> Training:
    """How it is trained: section ``head-rounds``, with the learning rate of the entry.

    Raises:
        InputError: a value is missing, of another kind or out of its range.
    """
    own = {RATE: head.learning_rate, "precision": Precision.fp32}
    return Training.of("head-rounds", seed, {**values, **own}, f"heads.{head.name}")
