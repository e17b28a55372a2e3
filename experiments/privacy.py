"""Accuracy against ε of differentially private sums, with all features and with fewer dimensions.

    python -m experiments.privacy DATA FIGURE [--epsilons 0.1 0.3 1 3 10 --project 64 256 0]

DATA is a folder with index.h5, clients.h5 and features.h5. Every sample's features are shrunk to
length 1, projected ones after the projection. Accuracy is the mean over clients on their own test
samples: of the global head without and with the client's class prior, of the personalized head as
``family: auto`` makes it, and of the local one. Of the first it is the mean over the seeds of the
noise, of the others that with the first seed. Prints a Markdown table and draws FIGURE.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from experiments.data import read_samples, summed, tuned
from pfl.data.client_features.by_client import by_client
from pfl.data.client_features.feature_map import FeatureMap, open_mapped_features
from pfl.data.features.features import Features
from pfl.data.features.fixed_point import dequantize
from pfl.data.samples.clients import Clients
from pfl.data.samples.index import Index
from pfl.evaluation.metrics import GLOBAL, GLOBAL_PRIOR, LOCAL, PERSONALIZED
from pfl.fedhip.affine_head import linear
from pfl.fedhip.closed_form import Knowledge, aggregate
from pfl.fedhip.families.table import Family
from pfl.fedhip.moments import Moments
from pfl.fedhip.selection.candidates import PersonalizeSettings
from pfl.fedhip.selection.choice import Chosen, KeptHead, choose, prepare_choice
from pfl.privacy.differential.gaussian import seeded_bytes
from pfl.privacy.differential.release import Privacy, release
from pfl.runtime.machine import cores
from pfl.runtime.parallel import in_order
from pfl.runtime.process import keep_memory

NORM = 1.0
KINDS = (GLOBAL, GLOBAL_PRIOR, PERSONALIZED, LOCAL)


@dataclass(frozen=True)
class Federation:
    """Training and test features of every client, in float32 to save memory."""

    train: list[tuple[np.ndarray, np.ndarray]]
    test: list[tuple[np.ndarray, np.ndarray]]
    sums: Moments

    def own(self, kind: str, clients: Sequence[Chosen]) -> float:
        """Accuracy of each client's head of a kind."""
        return self.accuracy([(one.kept[kind], one.log_ratio) for one in clients])

    def shared(self, head: np.ndarray) -> float:
        """Accuracy of one head at all clients."""
        one = KeptHead(linear(head), 1.0, 0.0), np.zeros(head.shape[1])
        return self.accuracy([one] * len(self.test))

    def accuracy(self, heads: Sequence[tuple[KeptHead, np.ndarray]]) -> float:
        """Mean over clients of each one's head on its own test samples.

        A head is given with log p_k(c)/π_c of its client.
        """
        found = [
            np.mean((one.scale * one.head.scores(features) + one.prior * ratio).argmax(1) == labels)
            for (one, ratio), (features, labels) in zip(heads, self.test, strict=True)
            if len(labels)
        ]
        return float(np.mean(found))


def load(features: Features, index: Index, clients: Clients) -> Federation:
    """Read a view of the features."""
    train, test = (
        [
            (dequantize(own.rows, features.step).astype(np.float32), own.labels)
            for own in by_client(features, index, held)
        ]
        for held in (clients.train, clients.test)
    )
    zero = Moments.zero(features.m, len(index.classes), features.step)
    return Federation(train, test, summed(by_client(features, index, clients.train), zero))


def personal(federation: Federation, knowledge: Knowledge) -> tuple[float, ...]:
    """Accuracy of the heads that each client has of its own, by ``KINDS`` from the second on."""
    alternatives = prepare_choice(knowledge, PersonalizeSettings(Family.AUTO))

    def work(own: tuple[np.ndarray, np.ndarray]) -> Chosen:
        return choose(alternatives, own[0].astype(np.float64), own[1])

    chosen = list(in_order(work, federation.train, cores()))
    return tuple(federation.own(kind, chosen) for kind in KINDS[1:])


def measure(
    federation: Federation, epsilons: Sequence[float], delta: float, seeds: int
) -> list[tuple[float, ...]]:
    """Accuracies by ``KINDS`` for each ε, and last without noise."""
    found = []
    for epsilon in epsilons:
        shared = []
        for seed in range(seeds):
            promise = Privacy(epsilon, delta, NORM)
            released = release(federation.sums, promise, seeded_bytes(seed))
            knowledge = aggregate(released.sums, released.beta)
            shared.append(federation.shared(knowledge.head))
            if seed == 0:
                own = personal(federation, knowledge)
        found.append((float(np.mean(shared)), *own))
    exact = tuned(federation.sums)
    return [*found, (federation.shared(exact.head), *personal(federation, exact))]


def draw(path: Path, epsilons: Sequence[float], found: dict[str, list[tuple[float, ...]]]) -> None:
    """One line a view and kind of head; thin lines are accuracy without noise."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    panels = figure.subplots(1, 2)
    for panel, kind in zip(panels, (GLOBAL, PERSONALIZED), strict=True):
        number = KINDS.index(kind)
        for color, (name, rows) in zip(("C0", "C1", "C2", "C3"), found.items(), strict=False):
            values = [100 * row[number] for row in rows]
            panel.plot(epsilons, values[:-1], "o-", color=color, label=name)
            panel.axhline(values[-1], color=color, linewidth=0.8, linestyle=":")
        panel.set(xscale="log", xlabel="ε", title=f"{kind} head", ylabel="accuracy in %")
        panel.set_xticks(epsilons, [f"{one:g}" for one in epsilons])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    whole = list(found.values())[-1]
    local = 100 * whole[-1][KINDS.index(LOCAL)]
    panels[1].axhline(local, color="black", linewidth=1, linestyle="--")
    panels[1].annotate(
        "local heads, nothing shared", (epsilons[-1], local), (0, -13),
        textcoords="offset points", fontsize=9, ha="right",
    )  # fmt: skip
    panels[0].legend(title="dotted: without noise")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("figure", type=Path)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.3, 1.0, 3.0, 10.0])
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--project", type=int, nargs="+", default=[64, 256, 0])
    parser.add_argument("--seeds", type=int, default=3)
    a = parser.parse_args()
    keep_memory()
    index, clients = read_samples(a.data)
    found = {}
    print("| dimensions | ε |", " | ".join(KINDS), "|\n|---:" + "|---:" * (len(KINDS) + 1) + "|")
    with threadpool_limits(1):
        for size in a.project:
            with open_mapped_features(
                a.data / "features.h5", FeatureMap(project=size, norm=NORM)
            ) as features:
                federation, name = load(features, index, clients), f"{features.m} dimensions"
            found[name] = measure(federation, a.epsilons, a.delta, a.seeds)
            for epsilon, row in zip([*a.epsilons, "no noise"], found[name], strict=True):
                cells = " | ".join(f"{100 * value:.1f}" for value in row)
                print(f"| {federation.sums.features} | {epsilon} | {cells} |", flush=True)
    draw(a.figure, a.epsilons, found)


if __name__ == "__main__":
    main()
