"""Made-up federations whose rounds are timed: clients of equal size, one call a round."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from pfl.data.tensors.client_data import ClientData, TestData
from pfl.training.rounds import Federation, Problem, play_round


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

    problem: Problem
    federation: Federation

    def __call__(self) -> None:
        """Play the next round."""
        self.federation, _ = play_round(self.problem, self.federation, self.run)

    def run(self, function: Callable[..., object], jobs: Sequence[object]) -> object:
        """Do the jobs here and now."""
        return (function(self.problem, job) for job in jobs)


def processor_seconds(run: Callable[[], object]) -> float:
    """Seconds of processor time."""
    before = os.times()
    run()
    after = os.times()
    return after.user - before.user + after.system - before.system
