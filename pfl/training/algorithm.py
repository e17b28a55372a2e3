"""What a federated method is, and what its local training gets to know."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from pfl.data.tensors.client_data import ClientData
from pfl.training.settings import Training
from pfl.training.split import Split


@dataclass(frozen=True)
class RoundContext:
    """What a client's local training works with, besides the model.

    Attributes:
        training: the settings.
        round: t, from 1.
        split: what is private in this round, in the model's device.
        memory: what this client keeps besides its private weights, by name; training may replace
            entries, and finds them again in the client's next round. Never uploaded.
        epochs: passes over the data: the settings', where a method has no number of its own.
        learning_rate: of this round, in the same sense.
        data: the client's training samples.
        generator: of all that is random.
        class_count: training samples of each class, of everybody together, if the method has that
            ``told``; else empty.
        optimizer: makes the optimizer of a descent; None for a fresh SGD with the settings.
    """

    training: Training
    round: int
    split: Split
    memory: dict[str, Tensor]
    epochs: int
    learning_rate: float
    data: ClientData
    generator: torch.Generator
    class_count: Int[np.ndarray, " told"] = field(default_factory=lambda: np.zeros(0, np.int64))
    optimizer: "MakeOptimizer | None" = None


# (parameters, context) -> the optimizer that moves them.
MakeOptimizer = Callable[[Iterable[nn.Parameter], RoundContext], torch.optim.Optimizer]
# (model, context) -> loss terms, each a mean over the samples seen. The model comes with the
# client's merged weights and is changed in place.
LocalTraining = Callable[[nn.Module, RoundContext], dict[str, float]]


@dataclass(frozen=True)
class Algorithm:
    """A federated method.

    Attributes:
        name: as in ``params.yaml``.
        split: (round t, rounds T) -> what is private in round t; it may grow with t, not shrink.
        train: a client's local training.
        personalize: turns a client's merged model into the one it uses and is tested with, in
            place; None when it uses the merged model as it is.
        for_own_samples: whether that model is for samples like the client's own. On everybody's
            samples and on other groups' the merged model is used and tested then.
        told: class counts that each client with samples tells once, before the first round; the
            sum over clients is all that anybody uses. 0 for a method that needs none.
    """

    name: str
    split: Callable[[int, int], Split]
    train: LocalTraining
    personalize: LocalTraining | None = None
    for_own_samples: bool = False
    told: int = 0
