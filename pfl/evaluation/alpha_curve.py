"""Test accuracy along the parameter of each family, to be looked at: nothing is chosen from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from pfl.data.client_features.by_client import ClientSamples, by_client
from pfl.data.features.features import Features
from pfl.data.features.fixed_point import dequantize
from pfl.data.samples.clients import Assignment, Clients
from pfl.data.samples.index import Index
from pfl.fedhip.closed_form import Knowledge, one_hot
from pfl.fedhip.families.family import Curve
from pfl.fedhip.families.table import FAMILIES, Family
from pfl.fedhip.selection.choice import scale_of
from pfl.ridge.smoother import smoother
from pfl.runtime.parallel import in_order

MOST = 100  # clients that are measured, evenly spread over all
DRAWN: dict[Family, Curve] = {
    family: curve for family in FAMILIES if (curve := family.definition.curve)
}


@dataclass(frozen=True)
class AccuracyCurves:
    """Accuracy of some clients' heads on their own test samples, for every drawn family.

    Attributes:
        clients: their numbers.
        values: of the family's first parameter, ascending; all else is as the server has it.
        accuracy: with each of them.
    """

    clients: Int[np.ndarray, " k"]
    values: Mapping[Family, Sequence[float]]
    accuracy: Mapping[Family, Float[np.ndarray, "k values"]]


def accuracy_curves(
    index: Index,
    clients: Clients,
    features: Features,
    knowledge: Knowledge,
    stayed: Bool[np.ndarray, " clients"],
    threads: int = 1,
) -> AccuracyCurves:
    """Measure up to ``MOST`` clients that ``stayed`` in the server's sums and have test samples.

    How many ``threads`` are at work does not change the result.
    """
    tested = np.flatnonzero(stayed & (clients.test.sizes > 0))
    shown = tested[np.linspace(0, len(tested) - 1, min(MOST, len(tested))).astype(int)]
    scale = scale_of(knowledge.gram, int(clients.train.sizes[stayed].sum()))
    grids = {family: next(iter(family.definition.grids.values())) for family in DRAWN}
    values: dict[Family, list[float]] = {
        family: sorted(grid(scale)) for family, grid in grids.items()
    }

    def work(pair: tuple[ClientSamples, ClientSamples]) -> list[list[float]]:
        train, test = (dequantize(samples.rows, features.step) for samples in pair)
        errors = one_hot(pair[0].labels, knowledge.head.shape[1]) - train @ knowledge.head
        return [
            _along(curve, knowledge, (train, errors), (test, pair[1].labels), values[family])
            for family, curve in DRAWN.items()
        ]

    pairs = zip(
        by_client(features, index, _part(clients.train, shown)),
        by_client(features, index, _part(clients.test, shown)),
        strict=True,
    )
    rows = list(in_order(work, pairs, threads))
    accuracy: dict[Family, Float[np.ndarray, "k values"]] = {
        family: np.array([row[number] for row in rows]).reshape(len(shown), len(values[family]))
        for number, family in enumerate(DRAWN)
    }
    return AccuracyCurves(shown, values, accuracy)


def _along(
    curve: Curve,
    knowledge: Knowledge,
    own: tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "n d"]],
    test: tuple[Float[np.ndarray, "t m"], Int[np.ndarray, " t"]],
    values: Sequence[float],
) -> list[float]:
    """Accuracy of the global head's scores plus those of the correction, w V'VᵀR(w)E.

    ``own`` is F_k and E, ``test`` the test features and their classes, of which V' is made.
    """
    (features, errors), (test_features, truth) = own, test
    mapped = curve.features(knowledge, features)
    fit = smoother(mapped)
    projected = fit.project(errors)
    carried = curve.features(knowledge, test_features) @ fit.directions(mapped)
    start = test_features @ knowledge.head
    scores = (start + carried @ fit.coefficients(curve.weight(x), projected) for x in values)
    return [float(np.mean(score.argmax(axis=1) == truth)) for score in scores]


def _part(held: Assignment, clients: Int[np.ndarray, " k"]) -> Assignment:
    """The assignment of these clients alone."""
    sizes = held.sizes[clients]
    sample = np.concatenate([np.empty(0, np.int64), *(held.of(int(k)) for k in clients)])
    return Assignment(sample, np.concatenate(([0], np.cumsum(sizes))), held.count[clients])
