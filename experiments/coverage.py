"""How often intervals of 95 % hold the truth, and tests at 5 % reject it.

    python -m experiments.coverage [--sets 1000]

Data are drawn from what is known: accuracies of clients from a beta distribution, of mean 0.9 and
standard deviation 0.09, or of mean 0.7 and 0.19; 10 to 60 test samples a client; two methods that
are equally good for every client, or whose trainings are lucky for all clients of a repeat at once.
Prints a line a case: the share of data sets in which the intervals of mean, worst tenth and
difference held the truth, and in which p was at most 5 %. It takes some minutes.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from pfl.report.statistics.accuracy import accuracy_intervals
from pfl.report.statistics.difference import difference, p_of_difference
from pfl.report.statistics.intervals import Interval
from pfl.report.statistics.outcomes import Outcomes

FEWEST, MOST = 10, 60  # test samples of a client


@dataclass(frozen=True)
class Case:
    """What data are drawn from.

    Attributes:
        clients: of each repeat.
        repeats: partitions.
        luck: standard deviation of what all clients of a repeat have in common, in those of a
            repeat's mean that clients explain.
        mean: of accuracy.
        strength: a + b of the beta distribution.
    """

    clients: int
    repeats: int = 1
    luck: float = 0.0
    mean: float = 0.9
    strength: float = 10.0

    def outcomes(self, rng: np.random.Generator, methods: int = 2) -> Outcomes:
        """Methods that are equally good, in the mean over luck."""
        tested = [rng.integers(FEWEST, MOST + 1, self.clients) for _ in range(self.repeats)]
        right: dict[str, list[np.ndarray]] = {f"m{i}": [] for i in range(methods)}
        for samples in tested:
            accuracy = self._accuracies(rng, samples.shape)
            for of_method in right.values():
                luck = self.luck * self._deviation() / np.sqrt(self.clients) * rng.normal()
                shares = np.clip(accuracy + luck, 0, 1)
                of_method.append(rng.binomial(samples, shares)[None].astype(float))
        return Outcomes(tested, right)

    def worst(self, rng: np.random.Generator) -> float:
        """The mean of the worst tenth of the clients' measured accuracies."""
        shape = (200_000 // self.clients, self.clients)
        samples = rng.integers(FEWEST, MOST + 1, shape)
        drawn = np.sort(rng.binomial(samples, self._accuracies(rng, shape)) / samples, axis=1)
        return float(drawn[:, : -(-self.clients // 10)].mean())

    def _accuracies(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return rng.beta(self.mean * self.strength, (1 - self.mean) * self.strength, shape)

    def _deviation(self) -> float:
        """Of a client's measured accuracy, about."""
        spread = self.mean * (1 - self.mean)
        inverse = np.log((MOST + 0.5) / (FEWEST - 0.5)) / (MOST - FEWEST + 1)  # mean of 1/n
        variance = spread / (self.strength + 1)
        return float(np.sqrt(variance + (spread - variance) * inverse))


CASES = [
    *(Case(k, r, mean=m, strength=s) for m, s in ((0.9, 10), (0.7, 5))
      for r in (1, 3) for k in (5, 20, 100)),
    *(Case(20, r, luck) for r in (2, 3, 5) for luck in (0.5, 1.0, 2.0)),
]  # fmt: skip


def measure(case: Case, sets: int, seed: int, draws: int | None = None) -> dict[str, float]:
    """Shares of ``sets`` drawn data sets in which each interval held, and the test rejected."""
    rng = np.random.default_rng(seed)
    truth = {"mean": case.mean, "worst": case.worst(rng), "difference": 0.0}
    found: dict[str, list[bool]] = {name: [] for name in (*truth, "rejected")}
    for number in range(sets):
        outcomes = case.outcomes(rng)
        mean, worst = accuracy_intervals(outcomes, "m0", number, draws)
        intervals = {"mean": mean, "worst": worst, "difference": difference(outcomes, "m0", "m1")}
        for name, interval in intervals.items():
            found[name].append(holds(interval, truth[name]))
        found["rejected"].append(p_of_difference(outcomes, "m0", "m1", number) <= 0.05)
    return {name: float(np.mean(values)) for name, values in found.items()}


def holds(interval: Interval, truth: float) -> bool:
    """Whether the truth is in it."""
    return interval.low <= truth <= interval.high


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", type=int, default=1000)
    sets = parser.parse_args().sets
    print("| accuracy | clients | repeats | luck | mean | worst tenth | difference | p ≤ 5 % |")
    print(f"|---|{'---:|' * 7}")
    for case in CASES:
        shares = measure(case, sets, 0, draws=1000)
        told = " | ".join(f"{100 * share:.1f}" for share in shares.values())
        print(f"| {case.mean} | {case.clients} | {case.repeats} | {case.luck} | {told} |",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
