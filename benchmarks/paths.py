"""Exact leave-one-out along a path of 25 values against 25 refits of the head, in one run.

`python -m benchmarks.paths [--features 1280 --classes 10]`

A path gives the leave-one-out residuals of every sample for every value; a refit gives one head and
says nothing of how good it is. Without the path, leave-one-out takes N_k times as many refits. What
all clients share, the spectrum and the factor of the sums, is made before. One BLAS thread.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from pfl.fedhip.selection.criteria import Criterion
from pfl.fedhip.selection.losses import losses
from threadpoolctl import threadpool_limits

from benchmarks.synthetic import STEP, samples
from pfl.fedhip.closed_form import Knowledge, aggregate
from pfl.fedhip.families.anchored_head import anchored_head
from pfl.fedhip.families.client_problem import ClientProblem
from pfl.fedhip.families.equation_14 import personalized_head
from pfl.fedhip.families.local_head import local_head
from pfl.fedhip.families.table import Candidate, Family
from pfl.fedhip.moments import moments
from pfl.ridge.gcv import GlobalPath, global_path
from pfl.ridge.grid import decades

BETA = 100.0
RHOS = decades(1.0, 1e6, 4)
ALPHAS = decades(1e-2, 1e4, 4)


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
    """One client and what the server sent it."""

    knowledge: Knowledge
    shared: GlobalPath
    features: np.ndarray
    labels: np.ndarray

    def refit(self, one: Candidate) -> None:
        """Make one head."""
        if one.family is Family.FEDHIP:
            personalized_head(self.knowledge, self.features, self.labels, one.alpha)
        elif one.family is Family.ANCHORED:
            anchored_head(self.knowledge.head, self.features, self.labels, one.rho)
        else:
            classes = self.knowledge.head.shape[1]
            local_head(self.features, self.labels, classes, one.beta)

    def refits(self, every: Sequence[Candidate]) -> None:
        """Make all heads, one after another."""
        for one in every:
            self.refit(one)

    def path(self, every: Sequence[Candidate]) -> None:
        """Find the leave-one-out loss of all heads."""
        own = ClientProblem(self.shared, BETA, self.features, self.labels)
        losses(own, every, range(len(every)), Criterion.MARGIN)


PATHS = {
    "fedhip": [Candidate(Family.FEDHIP, alpha=alpha, beta=BETA) for alpha in ALPHAS],
    "anchored": [Candidate(Family.ANCHORED, rho=rho) for rho in RHOS],
    "local": [Candidate(Family.LOCAL, beta=beta) for beta in RHOS],
}
PATHS["all 75"] = [one for every in PATHS.values() for one in every]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=1280)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--samples", type=int, nargs="+", default=[50, 200, 500, 1000, 3000])
    parser.add_argument("--runs", type=int, default=3)
    a = parser.parse_args()
    print(f"m={a.features} d={a.classes}, {len(RHOS)} values, best of {a.runs} runs")
    print(f"{'N_k':>6}{'':>10}{'refits':>10}{'path':>10}{'ratio':>8}")
    with threadpool_limits(1):
        summed = moments(
            *samples(20_000, a.features, a.classes, np.random.default_rng(0)), a.classes, STEP
        )
        knowledge, shared = aggregate(summed, BETA), global_path(*summed.ridge_sums())
        for count in a.samples:
            rows, labels = samples(count, a.features, a.classes, np.random.default_rng(1))
            client = Client(knowledge, shared, rows * STEP, labels)
            for name, every in PATHS.items():
                slow = seconds(partial(client.refits, every), a.runs)
                fast = seconds(partial(client.path, every), a.runs)
                print(f"{count:6}{name:>10}{slow:8.3f} s{fast:8.3f} s{fast / slow:8.3f}")


if __name__ == "__main__":
    main()
