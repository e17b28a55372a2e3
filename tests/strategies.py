"""Hypothesis strategies: labelled fixed-point features dealt to clients."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

STEP = 2.0**-8


@dataclass(frozen=True)
class Federation:
    """Samples (rows, labels) with the client each one belongs to."""

    rows: np.ndarray
    labels: np.ndarray
    owner: np.ndarray
    clients: int
    classes: int
    step: float = STEP

    def of(self, client):
        """A client's rows and labels, sorted by label as the pipeline stores them."""
        mine = np.flatnonzero(self.owner == client)
        mine = mine[np.argsort(self.labels[mine], kind="stable")]
        return self.rows[mine], self.labels[mine]

    def dealt_anew(self, others, rng):
        """The same samples: client 0 keeps its own, the rest go to `others` clients; shuffled."""
        owner = self.owner.copy()
        rest = owner != 0
        owner[rest] = rng.integers(1, 1 + others, rest.sum())
        order = rng.permutation(len(owner))
        return Federation(
            self.rows[order], self.labels[order], owner[order], 1 + others, self.classes, self.step
        )

    @property
    def features(self):
        return self.rows * self.step


@st.composite
def federations(draw, max_samples=40, max_width=8, max_clients=6, max_classes=5):
    """Federations of every shape, empty clients and single-class clients included."""
    n = draw(st.integers(1, max_samples))
    m = draw(st.integers(1, max_width))
    clients = draw(st.integers(1, max_clients))
    classes = draw(st.integers(2, max_classes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    limit = draw(st.sampled_from([3, 300, 32767]))
    return Federation(
        rng.integers(-limit, limit + 1, (n, m)).astype(np.int16),
        rng.integers(0, classes, n),
        rng.integers(0, clients, n),
        clients,
        classes,
    )
