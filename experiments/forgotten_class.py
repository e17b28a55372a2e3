"""What the global head still knows of a class when its holders leave, one after another.

`python -m experiments.forgotten_class [--data data --classes 3 9 --out docs/images/forgetting.png]`

Needs a finished `gram`. The clients that hold samples of the class leave, those with most of them
first, each by subtraction; β is chosen anew by GCV. Accuracy is on all test samples.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from threadpoolctl import threadpool_limits

from experiments.data import read_samples
from pfl.artifacts.figure import COLORS, draw
from pfl.data.client_features.by_client import rows_of
from pfl.data.features.features import open_features
from pfl.data.samples.clients import Clients
from pfl.data.samples.index import Index
from pfl.fedhip.membership import forget, solve_sums
from pfl.fedhip.moments import total
from pfl.fedhip.uploads import open_uploads

STAGES = 20  # measurements a class, at most


def test_samples(folder: Path, index: Index) -> tuple[np.ndarray, np.ndarray]:
    """Features (any unit) and labels of all test samples."""
    with open_features(folder / "features.h5") as features:
        tested = np.flatnonzero(index.test)
        rows = rows_of(features, index.images_of(tested)).astype(np.float32)
    return rows, index.label[tested]


def accuracies(
    folder: Path, index: Index, clients: Clients, wanted: int
) -> Iterator[tuple[float, float, float]]:
    """Share of the class that left, accuracy on it, and on the other classes."""
    rows, label = test_samples(folder, index)
    held = clients.train.count[:, wanted]
    holders = [k for k in np.argsort(-held, kind="stable").tolist() if held[k]]
    marks = np.unique(np.linspace(0, len(holders), STAGES, dtype=int))
    with open_uploads(folder / "uploads.h5") as uploads:
        sums = total((uploads.of(k) for k in range(uploads.clients)), uploads.zero)
        for left in range(len(holders) + 1):
            if left:
                sums = forget(sums, [uploads.of(holders[left - 1])])
            if left in marks:
                hits = (rows @ solve_sums(sums, None).head.astype(np.float32)).argmax(1) == label
                mine = label == wanted
                share = float(held[holders[:left]].sum() / held.sum())
                yield share, float(hits[mine].mean()), float(hits[~mine].mean())


def picture(path: Path, found: dict[str, np.ndarray]) -> None:
    """Draw accuracy on each class, and on the others, against the share of it that left."""

    def content(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        for color, (name, rows) in zip(COLORS, found.items(), strict=False):
            share, mine, others = rows.T
            axes.plot(share, mine, "o-", color=color, ms=4, lw=2, label=name)
            axes.plot(share, others, "--", color=color, lw=1.5, label=f"all but {name}")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(PercentFormatter(1))
        axes.set(ylim=(-0.02, 1), title="Accuracy of the global head while a class's holders leave")
        axes.set(xlabel="training samples of the class that have left", ylabel="test accuracy")
        axes.grid(axis="y", color="0.9")
        axes.set_axisbelow(True)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))

    draw(path, (8.0, 4.2), content)


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--classes", type=int, nargs="+", default=[3, 9])
    parser.add_argument("--out", type=Path, default=Path("forgetting.png"))
    a = parser.parse_args()
    index, clients = read_samples(a.data)
    with threadpool_limits(1):  # as in the stages
        found = {
            index.classes[c]: np.array([*accuracies(a.data, index, clients, c)]) for c in a.classes
        }
    for name, rows in found.items():
        print(f"{name}: left, accuracy on it, on the other classes")
        for row in rows:
            print("".join(f"{value:8.1%}" for value in row))
    picture(a.out, found)


if __name__ == "__main__":
    main()
