"""Test accuracy along α and ρ, to be looked at: nothing is chosen from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Bool, Float, Int

from pfl.data.client_features.by_client import ClientSamples, by_client
from pfl.data.features.features import Features
from pfl.data.features.fixed_point import dequantize
from pfl.data.samples.clients import Clients, Deal
from pfl.data.samples.index import Index
from pfl.fedhip.closed_form import Knowledge, one_hot
from pfl.fedhip.selection.candidates import alpha_grid, ridge_grid
from pfl.ridge.smoother import smoother
from pfl.runtime.parallel import in_order

MOST = 100  # clients that are measured, evenly spread over all


@dataclass(frozen=True)
class Paths:
    """Accuracy of some clients' heads on their own test samples, for each α and each ρ.

    Attributes:
        clients: their numbers.
        alphas: values of α in equation (14), at the server's β.
        rhos: values of ρ of the anchored head.
        fedhip: accuracy with each α.
        anchored: accuracy with each ρ.
    """

    clients: Int[np.ndarray, " k"]
    alphas: Sequence[float]
    rhos: Sequence[float]
    fedhip: Float[np.ndarray, "k alphas"]
    anchored: Float[np.ndarray, "k rhos"]


def accuracy_paths(
    index: Index,
    clients: Clients,
    features: Features,
    knowledge: Knowledge,
    stayed: Bool[np.ndarray, " clients"],
    threads: int = 1,
) -> Paths:
    """Measure up to ``MOST`` clients that stayed and have test samples.

    Args:
        index: labels.
        clients: who holds what.
        features: all features.
        knowledge: what the server sent.
        stayed: whose samples are in the server's sums.
        threads: clients at work at the same time; does not change the result.
    """
    tested = np.flatnonzero(stayed & (clients.test.sizes > 0))
    shown = tested[np.linspace(0, len(tested) - 1, min(MOST, len(tested))).astype(int)]
    scale = float(np.trace(knowledge.gram)) / max(int(clients.train.sizes[stayed].sum()), 1)
    alphas, rhos = alpha_grid(), ridge_grid(scale or 1.0)

    def work(pair: tuple[ClientSamples, ClientSamples]) -> tuple[list[float], list[float]]:
        own, test = (dequantize(part.rows, features.step) for part in pair)
        errors = one_hot(pair[0].labels, knowledge.head.shape[1]) - own @ knowledge.head
        along = partial(_along, errors, test @ knowledge.head, pair[1].labels)
        white, white_test = (knowledge.factor.half_solve(part.T).T for part in (own, test))
        return along(white, white_test, alphas), along(own, test, [1.0 / rho for rho in rhos])

    pairs = zip(
        by_client(features, index, _part(clients.train, shown)),
        by_client(features, index, _part(clients.test, shown)),
        strict=True,
    )
    found = list(in_order(work, pairs, threads))
    fedhip = np.array([one for one, _ in found]).reshape(len(shown), len(alphas))
    anchored = np.array([one for _, one in found]).reshape(len(shown), len(rhos))
    return Paths(shown, alphas, rhos, fedhip, anchored)


def _along(
    errors: Float[np.ndarray, "n d"],
    start: Float[np.ndarray, "t d"],
    truth: Int[np.ndarray, " t"],
    own: Float[np.ndarray, "n m"],
    test: Float[np.ndarray, "t m"],
    weights: Sequence[float],
) -> list[float]:
    """Accuracy of the global head's scores plus the test features times αFᵀ(I + αFFᵀ)⁻¹E.

    With F whitened by the global factor the head is that of (14), else the anchored one at 1/α.
    """
    fit = smoother(own)
    projected, carried = fit.project(errors), test @ fit.directions(own)
    scores = (start + carried @ fit.coefficients(alpha, projected) for alpha in weights)
    return [float(np.mean(one.argmax(axis=1) == truth)) for one in scores]


def _part(held: Deal, clients: Int[np.ndarray, " k"]) -> Deal:
    """The deal of these clients alone."""
    sizes = held.sizes[clients]
    sample = np.concatenate([np.empty(0, np.int64), *(held.of(int(k)) for k in clients)])
    return Deal(sample, np.concatenate(([0], np.cumsum(sizes))), held.count[clients])
