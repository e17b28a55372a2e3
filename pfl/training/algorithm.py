"""What a federated method is, and what its local training gets to know."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from pfl.data.tensors.client_data import ClientData
from pfl.training.split import Split


@dataclass(frozen=True)
class Training:
    """How every method trains; the same for all clients and rounds.

    Attributes:
        seed: of every random choice.
        rounds: T.
        epochs: passes over a client's data in one round.
        batch_size: samples a step.
        lr: learning rate of the first round.
        lr_decay: factor on the learning rate after each round; 1 keeps it constant.
        momentum: of SGD; its buffers are fresh in each round.
        nesterov: whether the momentum is Nesterov's.
        weight_decay: of SGD.
        fraction: share of the clients with data that take part in a round, in (0, 1].
        client_dropout: probability in [0, 1) that a chosen client is lost during the round.
        bf16: whether the matrix products run in bfloat16 (autocast).
    """

    seed: int
    rounds: int
    epochs: int
    batch_size: int
    lr: float
    lr_decay: float
    momentum: float
    nesterov: bool
    weight_decay: float
    fraction: float
    client_dropout: float
    bf16: bool


@dataclass(frozen=True)
class RoundContext:
    """What local training may know besides the model and the data.

    Attributes:
        training: the settings, see :meth:`adjusted`.
        round: t, from 1.
        split: what is private in this round, in the model's device.
        memory: what this client keeps besides its private weights, by name; training may read and
            replace its entries, and finds them again in the client's next round. Never uploaded.
    """

    training: Training
    round: int
    split: Split
    memory: dict[str, Tensor]

    @property
    def lr(self) -> float:
        """The learning rate of this round: lr · lr_decay^(t − 1)."""
        return self.training.lr * self.training.lr_decay ** (self.round - 1)

    def adjusted(self, **settings: Any) -> "RoundContext":
        """The same with other settings, by the names of :class:`Training`."""
        return replace(self, training=replace(self.training, **settings))


# (model, data, context, generator) -> loss terms, each a mean over the samples seen. The model
# comes with the client's merged weights and is changed in place.
LocalTraining = Callable[[nn.Module, ClientData, RoundContext, torch.Generator], dict[str, float]]


@dataclass(frozen=True)
class Algorithm:
    """A federated method.

    Attributes:
        name: as in ``params.yaml``.
        split: (round t, rounds T) -> what is private in round t; it may grow with t, not shrink.
        train: a client's local training.
        personalize: turns a client's merged model into the one it uses and is tested with, in
            place; None when it uses the merged model as it is.
    """

    name: str
    split: Callable[[int, int], Split]
    train: LocalTraining
    personalize: LocalTraining | None = None
