"""How every method trains: what section ``rounds`` or ``head-rounds`` of the parameters says.

The ranges of these settings stand here alone. Stages and Flower construct :meth:`Training.of` a
section, which names a wrong value by the key that the user has set. No PyTorch is imported, so it
is told at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pfl.errors import InputError
from pfl.runtime.values import Device, Precision, Range, annotated, checked

ABOVE_0 = Range(0, with_low=False)
RATE = "learning-rate"
FROM_0 = Range(0)
FROM_1 = Range(1)


class Models(StrEnum):
    """Which model of a client the tests are of.

    Attributes:
        DOWNLOADED: the one that it uses from then on, with the average of the round.
        TRAINED: the one that it has just trained, before the average. FedRep's released code tests
            that one [arXiv 2102.07078].
    """

    DOWNLOADED = "downloaded"
    TRAINED = "trained"


class Network(StrEnum):
    """The networks that :mod:`pfl.training.networks` builds."""

    LENET5 = "lenet5"
    RESNET18 = "resnet18"
    RESNET34 = "resnet34"
    RESNET20 = "resnet20"
    RESNET32 = "resnet32"
    RESNET20A = "resnet20a"
    RESNET32A = "resnet32a"


class SettingError(InputError):
    """A method's setting that does not go with the network, or with another setting.

    The sentence begins with the setting's name; whoever knows the section puts that before it.
    """


@dataclass(frozen=True)
class Training:
    """The settings, the same for all clients and rounds.

    Attributes:
        section: of the parameters that they come from.
        rate_section: that has the learning rate; a head has one of its own.
        seed: of every random choice.
        rounds: T.
        epochs: passes over a client's data in one round.
        batch_size: samples a step.
        learning_rate: of the first round.
        learning_rate_decay: factor on it after each round; 1 keeps it constant.
        momentum: of SGD; its buffers are fresh in each round.
        nesterov: whether the momentum is Nesterov's.
        weight_decay: of SGD.
        fraction: share of the clients with data that take part in a round.
        client_dropout: probability that a chosen client is lost during the round.
        validation_fraction: share of each client's training samples that is put aside.
        evaluate_every: rounds between tests of the clients' own models.
        test: which models the tests after the last round are of.
        precision: of the matrix products; ``bf16`` is autocast.
        device: where networks run.
    """

    section: str
    rate_section: str
    seed: int
    rounds: Annotated[int, FROM_1]
    epochs: Annotated[int, FROM_1]
    batch_size: Annotated[int, FROM_1]
    learning_rate: Annotated[float, ABOVE_0]
    learning_rate_decay: Annotated[float, ABOVE_0]
    momentum: Annotated[float, Range(0, 1)]
    nesterov: bool
    weight_decay: Annotated[float, FROM_0]
    fraction: Annotated[float, Range(0, 1, with_low=False)]
    client_dropout: Annotated[float, Range(0, 1, with_high=False)]
    validation_fraction: Annotated[float, Range(0, 1, with_high=False)]
    evaluate_every: Annotated[int, FROM_1]
    test: Models
    precision: Precision
    device: Device

    @classmethod
    def of(
        cls, section: str, seed: int, values: Mapping[str, object], rate_section: str = ""
    ) -> "Training":
        """The settings of a section, ``values`` by key, which may hold more than these.

        Raises:
            InputError: a value is missing, of another kind or out of its range.
        """
        rate_section = rate_section or section
        checked_values: dict[str, Any] = {
            key.replace("-", "_"): checked(
                f"{rate_section if key == RATE else section}.{key}", values.get(key), *kind
            )
            for key, kind in SETTINGS.items()
        }
        return cls(section, rate_section, seed, **checked_values)

    def key(self, name: str) -> str:
        """Where the parameters have the setting ``name``."""
        return f"{self.rate_section if name == RATE else self.section}.{name}"

    def rate(self, number: int) -> float:
        """The learning rate of round t: learning_rate · learning_rate_decay^(t − 1)."""
        return self.learning_rate * self.learning_rate_decay ** (number - 1)

    def tests(self, number: int) -> bool:
        """Whether the clients' models are tested after round ``number``; always after the last."""
        return number % self.evaluate_every == 0 or number == self.rounds

    @property
    def facts(self) -> dict[str, object]:
        """The settings by the names that a run's file has for them."""
        return {
            "seed": self.seed, "rounds": self.rounds, "epochs": self.epochs,
            "batch_size": self.batch_size, "lr": self.learning_rate,
            "lr_decay": self.learning_rate_decay, "momentum": self.momentum,
            "nesterov": self.nesterov, "weight_decay": self.weight_decay,
            "fraction": self.fraction, "client_dropout": self.client_dropout,
            "bf16": self.bf16,
        }  # fmt: skip

    @property
    def bf16(self) -> bool:
        """Whether the matrix products run in bfloat16."""
        return self.precision == Precision.bf16


SETTINGS = annotated(Training, "section", "rate_section", "seed")  # by key
