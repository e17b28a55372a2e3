"""A client's automatic choice against one refit of each of the heads that it chooses from.

`python -m benchmarks.paths [--features 1280 --classes 10]`

The choice knows the left-out scores of every sample under every candidate, calibrates each of them,
and makes the heads; see docs/selection.md. A refit makes one head of a candidate from all samples
and says nothing of how good it is: leaving samples out by refits takes N_k times as many, and the
calibration comes on top. What all clients share, as the spectrum of the sums, is made before. One
BLAS thread.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.synthetic import STEP, samples
from pfl.fedhip.closed_form import aggregate
from pfl.fedhip.families.client_problem import ClientProblem
from pfl.fedhip.families.table import FAMILIES, Family
from pfl.fedhip.moments import moments
from pfl.fedhip.selection.candidates import PersonalizeSettings
from pfl.fedhip.selection.choice import Alternatives, choose, prepare_choice
from pfl.fedhip.selection.judged import judge

BETA = 100.0


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Least time of a few runs."""
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return float(best)


@dataclass(frozen=True)
class Client:
    """One client and what it may choose from."""

    alternatives: Alternatives
    features: np.ndarray
    labels: np.ndarray

    def problem(self) -> ClientProblem:
        """The client's samples with nothing computed of them yet."""
        return ClientProblem(self.alternatives.pooled, self.features, self.labels)

    def refits(self, numbers: Sequence[int]) -> None:
        """Make these candidates' heads, each from the samples and the server's sums alone."""
        for number in numbers:
            self.alternatives.head(number, self.problem())

    def judge(self, numbers: Sequence[int]) -> None:
        """Leave every sample out under these candidates, and calibrate them without a prior."""
        judge(self.problem(), self.alternatives.candidates, numbers, [None])

    def choose(self) -> None:
        """The whole automatic choice, with the heads."""
        choose(self.alternatives, self.features, self.labels)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=1280)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--samples", type=int, nargs="+", default=[50, 200, 500, 1000, 3000])
    parser.add_argument("--runs", type=int, default=3)
    a = parser.parse_args()
    print(f"m={a.features} d={a.classes}, best of {a.runs} runs")
    print(f"{'N_k':>6}{'':>10}{'heads':>7}{'refits':>10}{'choice':>10}{'ratio':>8}")
    with threadpool_limits(1):
        summed = moments(
            *samples(20_000, a.features, a.classes, np.random.default_rng(0)), a.classes, STEP
        )
        alternatives = prepare_choice(aggregate(summed, BETA), PersonalizeSettings(Family.AUTO))
        paths = {family.value: alternatives.numbers(family) for family in FAMILIES}
        every = range(len(alternatives.candidates))
        Client(alternatives, *_drawn(a, 20)).choose()  # what all clients share is made
        for count in a.samples:
            client = Client(alternatives, *_drawn(a, count))
            rows = [(name, found, partial(client.judge, found)) for name, found in paths.items()]
            for name, numbers, work in [*rows, ("auto", every, client.choose)]:
                slow = seconds(partial(client.refits, numbers), a.runs)
                fast = seconds(work, a.runs)
                times = f"{slow:8.3f} s{fast:8.3f} s{fast / slow:8.3f}"
                print(f"{count:6}{name:>10}{len(numbers):7}{times}")


def _drawn(a: argparse.Namespace, count: int) -> tuple[np.ndarray, np.ndarray]:
    rows, labels = samples(count, a.features, a.classes, np.random.default_rng(1))
    return rows * STEP, labels


if __name__ == "__main__":
    main()
