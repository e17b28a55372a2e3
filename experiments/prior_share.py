"""How much of what personalization gains is the class prior, from one class a client to IID.

    python -m experiments.prior_share SHARES.csv DATA [DATA ...] [--clients 20 --seeds 0 1 2]
    python -m experiments.prior_share SHARES.csv --figure FIGURE.png

Each DATA is a folder with index.h5 and features.h5. For each concentration of a Dirichlet
partition, and IID, each seed deals the samples to clients anew, and the heads are tested on the
clients' test samples, which choose nothing. SHARES.csv gets a line for each; what has lines is not
repeated.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from threadpoolctl import threadpool_limits

from experiments.data import IID, deal, summed, tuned
from experiments.ledger import add, lines
from experiments.selection import tested
from pfl.artifacts.figure import COLORS, draw
from pfl.data.client_features.by_client import ClientSamples, by_client
from pfl.data.features.features import open_features
from pfl.data.features.fixed_point import dequantize
from pfl.fedhip.families.table import Family
from pfl.fedhip.moments import Moments
from pfl.fedhip.selection.candidates import PersonalizeSettings
from pfl.fedhip.selection.choice import KEPT, Alternatives, choose, prepare_choice
from pfl.runtime.machine import cores
from pfl.runtime.parallel import in_order
from pfl.runtime.process import keep_memory

CONCENTRATIONS = (0.05, 0.1, 0.3, 1.0, 3.0, 10.0)
GLOBAL = "global"
HEADS = (GLOBAL, *KEPT)
COLUMNS = ("data", "clients", "concentration", "seed", *HEADS)
DRAWN = {
    "global": "G",
    "global-prior": "G with prior",
    "local": "local",
    "personalized": "personalized",
}


def measure(folder: Path, clients: int, concentration: str, seed: int) -> dict[str, float]:
    """Mean accuracy over clients, by the kind of head."""
    index, dealt = deal(folder, clients, concentration, seed)
    with open_features(folder / "features.h5") as features:
        zero = Moments.zero(features.m, len(index.classes), features.step)
        server = tuned(summed(by_client(features, index, dealt.train), zero))
        alternatives = prepare_choice(server, PersonalizeSettings(Family.AUTO))
        pairs = zip(
            by_client(features, index, dealt.train),
            by_client(features, index, dealt.test),
            strict=True,
        )
        both = (pair for pair in pairs if all(len(part.labels) for part in pair))
        rows = list(
            in_order(lambda pair: _client(alternatives, *pair, features.step), both, cores())
        )
    return {name: float(np.mean([row[name] for row in rows])) for name in HEADS}


def _client(
    alternatives: Alternatives, own: ClientSamples, test: ClientSamples, step: float
) -> dict[str, float]:
    outside = dequantize(test.rows, step)
    chosen = choose(alternatives, dequantize(own.rows, step), own.labels)
    found = {kind: tested(chosen, kind, outside, test.labels)[0] for kind in KEPT}
    shared = (outside @ alternatives.server.head).argmax(1)
    return {GLOBAL: float(np.mean(shared == test.labels)), **found}


def draw_shares(path: Path, rows: list[dict[str, str]]) -> None:
    """One panel a data set: accuracy against the concentration, mean over seeds."""
    data = list(dict.fromkeys(row["data"] for row in rows))

    def content(figure: Figure) -> None:
        panels = figure.subplots(1, len(data), squeeze=False)[0]
        for axes, name in zip(panels, data, strict=True):
            _panel(axes, [row for row in rows if row["data"] == name])
            axes.set_title(name)
        panels[0].set_ylabel("accuracy on clients' own test samples")
        panels[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5))

    draw(path, (4.2 * len(data) + 1.5, 4.0), content)


def _panel(axes: Axes, rows: list[dict[str, str]]) -> None:
    places = list(dict.fromkeys(row["concentration"] for row in rows))
    for color, (head, label) in zip(COLORS, DRAWN.items(), strict=False):
        means = [
            np.mean([float(row[head]) for row in rows if row["concentration"] == place])
            for place in places
        ]
        axes.plot(range(len(places)), means, marker="o", color=color, label=label)
    axes.set_xticks(range(len(places)), places)
    axes.set_xlabel("concentration")
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.grid(color="0.9")
    axes.set_axisbelow(True)


def main() -> None:
    """Measure what has no line yet, or draw what is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shares", type=Path)
    parser.add_argument("data", nargs="*", type=Path)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--figure", type=Path, default=None)
    options = parser.parse_args()
    if options.figure is not None:
        draw_shares(options.figure, lines(options.shares))
        return
    keep_memory()
    with threadpool_limits(1):
        for folder in options.data:
            for place in (*map(str, CONCENTRATIONS), IID):
                for seed in options.seeds:
                    _once(options.shares, folder, options.clients, place, seed)


def _once(shares: Path, folder: Path, clients: int, concentration: str, seed: int) -> None:
    named = (folder.name, str(clients), concentration, str(seed))
    if any(tuple(row.values())[: len(named)] == named for row in lines(shares)):
        return
    row = dict(zip(COLUMNS, named, strict=False)) | measure(folder, clients, concentration, seed)
    add(shares, COLUMNS, row)


if __name__ == "__main__":
    main()
