"""A client's samples beside everybody else's, as float64, and what the server makes of them."""

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from pfl.fedhip.closed_form import Knowledge
from pfl.fedhip.families.client_problem import ClientProblem, Pooled
from pfl.ridge.linalg import factor, spectrum


@dataclass(frozen=True)
class Pool:
    """All samples; the first ``own`` are the client's, sorted by label."""

    features: np.ndarray
    labels: np.ndarray
    own: int
    classes: int

    @property
    def everybody(self):
        return self.features, self.labels

    @property
    def mine(self):
        return self.features[: self.own], self.labels[: self.own]

    def without(self, i):
        """All but sample ``i``, which is the client's."""
        keep = np.arange(len(self.labels)) != i
        return replace(
            self, features=self.features[keep], labels=self.labels[keep], own=self.own - 1
        )

    def server(self, beta=1.0):
        """What the server sends."""
        targets = np.eye(self.classes)[self.labels]
        gram, cross = self.features.T @ self.features, self.features.T @ targets
        system = factor(gram, beta)
        count = np.bincount(self.labels, minlength=self.classes)
        return Knowledge(gram, system, cross, system.solve(cross), beta, count)

    def problem(self, beta=1.0):
        """What leave-one-out needs."""
        return problem_of(self.server(beta), *self.mine)


def problem_of(server, features, labels):
    """A client's, from what the server sent."""
    return ClientProblem(Pooled(server, spectrum(server.gram)), features, labels)


def pool_of(rng, own, others, width, classes, present=None, offset=0.0):
    """Samples about class means, of the first ``present`` classes, shifted by ``offset``."""
    present = classes if present is None else present
    labels = rng.integers(0, present, own + others)
    labels[:own].sort()
    means = rng.normal(size=(classes, width))
    features = means[labels] + rng.normal(size=(own + others, width)) + offset
    return Pool(features, labels, own, classes)


@st.composite
def pools(draw, least=1, classes=4):
    """Fewer or more samples than features; classes that nobody has, or that one sample has."""
    width = draw(st.integers(1, 8))
    own, others = draw(st.integers(least, 14)), draw(st.integers(0, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pool = pool_of(
        rng, own, others, width, classes, draw(st.integers(1, classes)),
        draw(st.sampled_from([0.0, 30.0])),
    )  # fmt: skip
    if own and draw(st.booleans()):
        pool.features[own // 2 : own] = pool.features[0]  # equal samples: K is singular
    return pool
