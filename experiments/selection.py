"""The personalized head against the families that it is made of, from a finished run's artifacts.

    python -m experiments.selection DATA [DATA ...] [--hold-out 0.2 --seeds 0 1 2] [--clients FILE]

Each DATA is a folder with index.h5, clients.h5 and features.h5. Without ``--hold-out``, clients are
tested on their test samples. With it, that share of every client's training samples is set aside
before anything is computed, and they are tested on those: the way to compare settings without
touching test samples. A cell is mean accuracy over clients / that of the worst tenth, in per cent,
and mean negative log-likelihood, in nats. ``one family`` takes the family of least leave-one-out
cross-entropy at each client in place of the sum of all.
"""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from experiments.data import read_samples, summed, tuned
from pfl.data.client_features.by_client import ClientSamples, by_client
from pfl.data.features.features import open_features
from pfl.data.features.fixed_point import dequantize
from pfl.data.samples.clients import Assignment, assign
from pfl.data.samples.index import Index
from pfl.evaluation.metrics import worst_decile
from pfl.evaluation.reliability.sums import log_probabilities
from pfl.fedhip.families.table import Family
from pfl.fedhip.moments import Moments
from pfl.fedhip.selection.candidates import STACKED, PersonalizeSettings, Prior
from pfl.fedhip.selection.choice import (
    KEPT,
    PERSONALIZED,
    Alternatives,
    Chosen,
    choose,
    prepare_choice,
)
from pfl.runtime.machine import cores
from pfl.runtime.parallel import in_order
from pfl.runtime.process import keep_memory

AUTO = PersonalizeSettings(Family.AUTO)
SETTINGS: dict[str, PersonalizeSettings] = {
    "auto": AUTO,
    "auto, prior: none": replace(AUTO, prior=Prior.NONE),
    "auto, smoothing: 0.1": replace(AUTO, smoothing=0.1),
    **{family.value: PersonalizeSettings(family) for family in STACKED},
}
ONE = "one family"
Row = tuple[float, float]  # accuracy and negative log-likelihood of a client


def parts(
    folder: Path, clients_file: Path | None, hold_out: float, seed: int
) -> tuple[Index, Assignment, Assignment]:
    """The samples to learn from and those to be tested on."""
    index, clients = read_samples(folder, clients_file)
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


def measure(
    folder: Path, clients_file: Path | None, hold_out: float, seed: int
) -> dict[str, np.ndarray]:
    """Accuracy and likelihood (K, 2) of each row at every client that has samples of both kinds."""
    index, train, test = parts(folder, clients_file, hold_out, seed)
    with open_features(folder / "features.h5") as features:
        zero = Moments.zero(features.m, len(index.classes), features.step)
        server = tuned(summed(by_client(features, index, train), zero))
        every = {name: prepare_choice(server, settings) for name, settings in SETTINGS.items()}
        pairs = zip(
            by_client(features, index, train), by_client(features, index, test), strict=True
        )
        both = (pair for pair in pairs if all(len(part.labels) for part in pair))
        rows = list(in_order(lambda pair: one_client(every, *pair, features.step), both, cores()))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def one_client(
    every: Mapping[str, Alternatives], own: ClientSamples, test: ClientSamples, step: float
) -> dict[str, Row]:
    """What each row achieves at one client."""
    features, outside = dequantize(own.rows, step), dequantize(test.rows, step)
    found = {name: choose(one, features, own.labels) for name, one in every.items()}
    kinds = [kind for kind in KEPT if kind != PERSONALIZED]
    rows = {kind: tested(found["auto"], kind, outside, test.labels) for kind in kinds}
    rows |= {name: tested(one, PERSONALIZED, outside, test.labels) for name, one in found.items()}
    least = {family: np.nanmin(found[family.value].objective[_numbers(every, family)])
             for family in STACKED} if len(own.labels) > 1 else {Family.GLOBAL: 0.0}  # fmt: skip
    rows[ONE] = rows[min(least, key=lambda family: least[family]).value]
    return rows


def _numbers(every: Mapping[str, Alternatives], family: Family) -> list[int]:
    return list(every[family.value].numbers(family))


def tested(chosen: Chosen, kind: str, features: np.ndarray, labels: np.ndarray) -> Row:
    """Accuracy and negative log-likelihood of one of a client's heads."""
    one = chosen.kept[kind]
    scores = one.scale * one.head.scores(features) + one.prior * chosen.log_ratio
    own = log_probabilities(scores)[np.arange(len(labels)), labels]
    return float(np.mean(scores.argmax(1) == labels)), float(-own.mean())


def main() -> None:
    """Print a table, a column a folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--hold-out", type=float, default=0.0)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--clients", type=Path, default=None)
    options = parser.parse_args()
    keep_memory()
    columns = {}
    with threadpool_limits(1):
        for folder in options.data:
            runs = [
                measure(folder, options.clients, options.hold_out, seed) for seed in options.seeds
            ]
            columns[folder.name] = {name: [run[name] for run in runs] for name in runs[0]}
    names = list(next(iter(columns.values())))
    print("| | " + " | ".join(columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for name in names:
        print(f"| {name} | " + " | ".join(_cell(of[name]) for of in columns.values()) + " |")


def _cell(runs: list[np.ndarray]) -> str:
    mean, nll = (
        100 * np.mean([r[:, 0].mean() for r in runs]),
        np.mean([r[:, 1].mean() for r in runs]),
    )
    worst = 100 * np.mean([worst_decile(r[:, 0]) for r in runs])
    return f"{mean:.1f} / {worst:.1f}, {nll:.3f}"


if __name__ == "__main__":
    main()
