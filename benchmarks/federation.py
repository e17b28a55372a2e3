"""Made-up federations whose rounds are timed: clients of equal size, one call a round."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pfl.data.tensors.client_data import ClientData, TestData
from pfl.runtime.workers import Request
from pfl.training.problem import LocalProblem
from pfl.training.rounds import Federation, play_round


def equal_clients(
    samples: ClientData, training: int, clients: int
) -> tuple[tuple[ClientData, ...], TestData]:
    """The first ``training`` samples in equal parts, and the rest as test samples likewise."""
    numbers = torch.arange(len(samples))
    parts = tuple(samples.take(part) for part in numbers[:training].tensor_split(clients))
    pooled = samples.take(numbers[training:])
    own = torch.arange(len(pooled)).tensor_split(clients)
    nothing = samples.take(numbers[:0])
    return parts, TestData([nothing] * clients, pooled, own, None)


@dataclass
class Method:
    """A federated method that plays its next round each time it is called."""

    problem: LocalProblem
    federation: Federation

    def __call__(self) -> None:
        """Play the next round."""
        self.federation, _ = play_round(self.problem, self.federation, self.run)

    def run(self, requests: Sequence[Request[Any]]) -> Iterator[Any]:
        """Perform the requests here and now."""
        return (request.perform(self.problem) for request in requests)


def processor_seconds(run: Callable[[], object]) -> float:
    """Seconds of processor time."""
    before = os.times()
    run()
    after = os.times()
    return after.user - before.user + after.system - before.system
