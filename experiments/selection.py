"""The automatic choice against the best fixed settings, from the artifacts of a finished run.

    python -m experiments.selection DATA [DATA ...] [--hold-out 0.25 --seeds 0 1 2]

Each DATA is a folder with index.h5, clients.h5 and features.h5. Without ``--hold-out``, accuracy is
that on the clients' test samples. With it, that share of every client's training samples is set
aside before anything is computed, and accuracy is that on them: the way to compare criteria without
touching test samples. "Best" rows pick one setting for all clients in hindsight, and the oracle one
for each client; nothing real can do that.
"""

import argparse
import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pfl.fedhip.selection.criteria import Criterion
from pfl.fedhip.selection.losses import losses
from threadpoolctl import threadpool_limits

from experiments.data import read_samples, summed, tuned
from pfl.data.client_features.by_client import ClientSamples, by_client
from pfl.data.features.features import Features, open_features
from pfl.data.features.fixed_point import dequantize
from pfl.data.samples.clients import Assignment, assign
from pfl.data.samples.index import Index
from pfl.fedhip.families.client_problem import ClientProblem
from pfl.fedhip.families.table import Candidate, Family
from pfl.fedhip.moments import Moments
from pfl.fedhip.selection.candidates import PersonalizeSettings, eligible
from pfl.fedhip.selection.choice import Alternatives, prepare_choice
from pfl.ridge.smoother import Smoother, smoother
from pfl.runtime.machine import cores
from pfl.runtime.parallel import in_order
from pfl.runtime.process import keep_memory

SINGLE = (Family.GLOBAL, Family.LOCAL, Family.FEDHIP, Family.ANCHORED)


@dataclass(frozen=True)
class Measured:
    """Losses (K, criteria, candidates) and accuracies (K, candidates) of tested clients."""

    candidates: tuple[Candidate, ...]
    losses: np.ndarray
    accuracy: np.ndarray

    def best(self, family: Family) -> float:
        """Mean accuracy with the best single setting of a family, in hindsight."""
        return float(self.accuracy[:, eligible(self.candidates, family)].mean(0).max())

    def automatic(self, family: Family, criterion: Criterion) -> float:
        """Mean accuracy when each client chooses within a family."""
        numbers = np.array(eligible(self.candidates, family))
        found = self.losses[:, list(Criterion).index(criterion)][:, numbers]
        choice = numbers[found.argmin(1)]
        return float(self.accuracy[np.arange(len(choice)), choice].mean())

    def oracle(self) -> float:
        """Mean accuracy with every client's best candidate."""
        return float(self.accuracy.max(1).mean())


def parts(folder: Path, hold_out: float, seed: int) -> tuple[Index, Assignment, Assignment]:
    """The samples to learn from and those to be tested on."""
    index, clients = read_samples(folder)
    if not hold_out:
        return index, clients.train, clients.test
    held = clients.train
    owner = np.repeat(np.arange(held.clients), held.sizes)
    aside = np.random.default_rng(seed).random(len(owner)) < hold_out
    shape = (held.clients, len(index.classes))
    kept, tested = (
        assign(owner[mask], held.sample[mask], index.label[held.sample[mask]], *shape)
        for mask in (~aside, aside)
    )
    return index, kept, tested


def measure(folder: Path, hold_out: float, seed: int) -> Measured:
    """Choose and test at every client that has samples of both kinds."""
    index, train, test = parts(folder, hold_out, seed)
    with open_features(folder / "features.h5") as features:
        alternatives = prepared(index, train, features)
        pairs = zip(
            by_client(features, index, train), by_client(features, index, test), strict=True
        )
        both = (pair for pair in pairs if all(len(part.labels) for part in pair))
        found = in_order(lambda pair: one_client(alternatives, *pair, features.step), both, cores())
        rows = list(found)
    every = (np.array([row[i] for row in rows]) for i in (0, 1))
    return Measured(alternatives.candidates, *every)


def prepared(index: Index, train: Assignment, features: Features) -> Alternatives:
    """The server's answer, its beta by GCV, with every parameter left open."""
    zero = Moments.zero(features.m, len(index.classes), features.step)
    sums = summed(by_client(features, index, train), zero)
    settings = PersonalizeSettings(Family.AUTO, None, None, None)
    return prepare_choice(sums, tuned(sums), settings, Criterion.MARGIN)


def one_client(
    alternatives: Alternatives, own: ClientSamples, test: ClientSamples, step: float
) -> tuple[list[np.ndarray], np.ndarray]:
    """Losses by every criterion, and accuracy, of all candidates at one client."""
    mine = ClientProblem(
        alternatives.path, alternatives.server.beta, dequantize(own.rows, step), own.labels
    )
    everything = range(len(alternatives.candidates))
    if len(own.labels) > 1:
        found = [losses(mine, alternatives.candidates, everything, one) for one in Criterion]
    else:
        found = [np.arange(len(alternatives.candidates), dtype=float)] * len(Criterion)
    return found, accuracies(
        mine, alternatives.candidates, dequantize(test.rows, step), test.labels
    )


def accuracies(
    own: ClientProblem, every: Sequence[Candidate], test: np.ndarray, truth: np.ndarray
) -> np.ndarray:
    """Test accuracy of every candidate; those on one path share a decomposition."""
    scores = all_scores(own, every, test)
    return np.array([np.mean(one.argmax(1) == truth) for one in scores])


def all_scores(
    own: ClientProblem, every: Sequence[Candidate], test: np.ndarray
) -> Iterator[np.ndarray]:
    """Class scores of the test samples under each candidate, in order."""
    rotated = test @ own.pooled.spectrum.vectors
    start = rotated @ own.pooled.head(own.beta)
    carried = test @ own.own_fit.directions(own.features)
    errors, targets = (
        own.own_fit.project(y) for y in (own.global_fit(own.beta).errors, own.targets)
    )
    fedhip = functools.cache(lambda beta: Whitened.of(own, rotated, beta))
    for one in every:
        if one.family is Family.GLOBAL:
            yield start
        elif one.family is Family.ANCHORED:
            yield start + carried @ own.own_fit.coefficients(1 / one.rho, errors)
        elif one.family is Family.LOCAL:
            yield carried @ own.own_fit.coefficients(1 / one.beta, targets)
        else:
            yield fedhip(one.beta).scores(one.alpha)


@dataclass(frozen=True)
class Whitened:
    """Scores of equation (14) at one β, for every α."""

    fit: Smoother
    start: np.ndarray
    carried: np.ndarray
    projected: np.ndarray

    @classmethod
    def of(cls, own: ClientProblem, rotated: np.ndarray, beta: float) -> "Whitened":
        """Decompose at β; ``rotated`` are the test features times U."""
        shared = own.global_fit(beta)
        white, fit = shared.whitened, smoother(shared.whitened)
        carried = rotated / np.sqrt(own.pooled.spectrum.values + beta) @ fit.directions(white)
        start = rotated @ own.pooled.head(beta)
        return cls(fit, start, carried, fit.project(shared.errors))

    def scores(self, alpha: float) -> np.ndarray:
        """Scores under P_k(α)."""
        return self.start + self.carried @ self.fit.coefficients(alpha, self.projected)


def rows_of(measured: Sequence[Measured]) -> dict[str, float]:
    """The table's rows: means over seeds, in per cent."""
    rows = {f"best {one} for all": lambda m, f=one: m.best(f) for one in SINGLE}
    for family, criterion in itertools.product(
        (Family.LOCAL, Family.FEDHIP, Family.ANCHORED, Family.AUTO), Criterion
    ):
        name = f"{family} by {criterion}"
        rows[name] = lambda m, f=family, c=criterion: m.automatic(f, c)
    rows["oracle"] = Measured.oracle
    return {name: 100 * float(np.mean([of(m) for m in measured])) for name, of in rows.items()}


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--hold-out", type=float, default=0.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    a = parser.parse_args()
    keep_memory()
    with threadpool_limits(1):
        columns = {
            folder.name: rows_of([measure(folder, a.hold_out, seed) for seed in a.seeds])
            for folder in a.data
        }
    print("| |", " | ".join([*columns, "mean"]), "|")
    print("|---|", "---:|" * (len(columns) + 1), sep="")
    for name in next(iter(columns.values())):
        values = [column[name] for column in columns.values()]
        cells = (f"{value:.1f}" for value in [*values, float(np.mean(values))])
        print(f"| {name} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
