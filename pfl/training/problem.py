"""What stays the same over all rounds: with the data where they are, without them at a server."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from pfl.data.tensors.client_data import ClientData, TestData
from pfl.data.tensors.federated_data import FederatedData, Holdout
from pfl.runtime.devices import chosen_device
from pfl.runtime.rng import stream
from pfl.training.algorithm import Algorithm, RoundContext
from pfl.training.settings import Training
from pfl.training.split import Split, nothing_private

# Both are told the network that they are for: its weights' source, or the network itself.
MakeNetwork = Callable[[torch.Generator], nn.Module]
MakeAlgorithm = Callable[[nn.Module], Algorithm]
COUNT_BYTES = 4  # of a class count that a client tells


@dataclass(frozen=True)
class Problem:
    """What the server of the rounds knows.

    Attributes:
        algorithm: the method.
        training: its settings.
        model: the network with its initial weights; clients use copies.
        sizes: training samples of each client; one without any never takes part.
    """

    algorithm: Algorithm
    training: Training
    model: nn.Module
    sizes: Sequence[int]

    def split(self, number: int) -> Split:
        """What is private in round ``number``; before the first round, nothing is."""
        if number == 0:
            return nothing_private(self.model.state_dict())
        return self.algorithm.split(number, self.training.rounds)

    def told_bytes(self, number: int) -> int:
        """What all clients with samples send besides in round ``number``: counts, in the first."""
        able = sum(size > 0 for size in self.sizes)
        return COUNT_BYTES * self.algorithm.told * able if number == 1 else 0


@dataclass(frozen=True)
class LocalProblem(Problem):
    """The same where data are: everybody's in the pipeline, one client's at its site.

    Attributes:
        clients: training data, by the clients' numbers.
        tests: what the clients' models are tested with.
        device: where the network and all data are.
        class_count: everybody's training samples of each class, if the method has that told.
    """

    clients: Mapping[int, ClientData]
    tests: TestData
    device: torch.device
    class_count: Int[np.ndarray, " told"] = field(default_factory=lambda: np.zeros(0, np.int64))

    def context(
        self, client: int, number: int, memory: Mapping[str, Tensor], generator: torch.Generator
    ) -> RoundContext:
        """What the client's local training of round ``number`` works with."""
        return RoundContext(
            training=self.training,
            round=number,
            split={name: mask.to(self.device) for name, mask in self.split(number).items()},
            memory={name: value.to(self.device) for name, value in memory.items()},
            epochs=self.training.epochs,
            learning_rate=self.training.rate(number),
            data=self.clients[client],
            generator=generator,
            class_count=self.class_count,
        )


def make_problem(
    training: Training, network: MakeNetwork, algorithm: MakeAlgorithm, sizes: Sequence[int]
) -> Problem:
    """The network, its initial weights drawn by the settings' seed, and the method for it.

    Raises:
        InputError: the method refuses its settings or the network.
    """
    model = network(stream(training.seed, "network"))
    return Problem(algorithm(model), training, model, sizes)


def local_problem(
    training: Training,
    network: MakeNetwork,
    algorithm: MakeAlgorithm,
    data: FederatedData,
    class_count: Int[np.ndarray, " _"] | None = None,
) -> LocalProblem:
    """The same where these data are, all on the settings' device.

    ``class_count`` is everybody's, where these data are not; None for that of the data.

    Raises:
        InputError: as above, or that device is not there.
    """
    known = make_problem(training, network, algorithm, data.sizes)
    device = chosen_device(training.device, training.key("device"))
    placed = data.to(device)
    count = data.class_count if class_count is None else class_count
    return LocalProblem(
        known.algorithm, training, known.model.to(device), known.sizes, placed.clients,
        placed.tests, device, count[: known.algorithm.told],
    )  # fmt: skip


def holdout(training: Training) -> Holdout:
    """What the settings keep from training."""
    fraction, key = training.validation_fraction, training.key("validation-fraction")
    return Holdout(fraction, training.seed, key)
