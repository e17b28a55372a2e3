"""A trained method's settings as both sides need them, from the parameters as JSON.

Server and clients make the same problem of :mod:`pfl.training.problem` from them, but for the
samples: a client has its own alone, and the server knows only how many each client has.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from pfl.errors import InputError
from pfl.runtime.values import checked, whole_or_auto
from pfl.training.algorithm import Algorithm
from pfl.training.methods.registry import COUNTED, make_algorithm
from pfl.training.networks import build
from pfl.training.problem import MakeNetwork
from pfl.training.settings import Models, Training
from pfl.training.warm_start import checkpoint_at


@dataclass(frozen=True)
class Trained:
    """One method with all its settings; ``values`` are those that it alone has.

    Images have the side ``image_size`` in pixels, or where it is None their own; with ``augment``
    training images are cropped and mirrored at random.
    """

    method: str
    values: Mapping[str, object]
    network: str
    image_size: int | None
    augment: bool
    training: Training

    @property
    def counted(self) -> bool:
        """Whether clients tell how many training samples of each class they have."""
        return self.method in COUNTED

    def make_network(self, channels: int, side: int, classes: int) -> MakeNetwork:
        """The network for such images, given the source of its weights."""
        return partial(build, self.network, channels, side, classes)

    def make_algorithm(self, model: nn.Module) -> Algorithm:
        """The method for this network."""
        return make_algorithm(self.method, model, self.values, f"train.{self.method}")


def from_dict(values: Mapping[str, Any]) -> Trained:
    """Inverse of ``asdict``."""
    fields = values["training"]
    by_key = {name.replace("_", "-"): value for name, value in fields.items()}
    training = Training.of(fields["section"], fields["seed"], by_key)
    return Trained(**{**values, "training": training})


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
    training = Training.of("rounds", seed, rounds)
    if training.test != Models.DOWNLOADED:
        raise InputError(
            f"rounds.test is {training.test}, but sites test the models that they download: set it "
            f"to {Models.DOWNLOADED}."
        )
    begin = rounds.get("begin-from")
    if begin is not None and checkpoint_at(Path(str(begin))) is not None:
        raise InputError(
            f"rounds.begin-from is {begin}, which has a run's file, but sites begin with random "
            "weights: set it to a folder without one."
        )
    size = whole_or_auto(rounds.get("image-size"), "rounds.image-size")
    augment = checked("rounds.augment", rounds.get("augment"), bool)
    network = str(rounds.get("network"))
    return Trained(method, train[method] or {}, network, size, augment, training)
