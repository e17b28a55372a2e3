"""A small finished federation on disk: every input of personalize and evaluate."""

import numpy as np

from pfl.artifacts.provenance import UNKNOWN
from pfl.data.features.features import write_features
from pfl.data.samples.clients import Clients, assign, write_clients
from pfl.data.samples.index import TEST, TRAIN, Index, write_index
from pfl.fedhip.closed_form import aggregate
from pfl.fedhip.members import Members, write_members
from pfl.fedhip.moments import moments
from pfl.fedhip.server import write_server

STEP = 2.0**-8
PLAIN = (0, 0, "none", 0)  # flags of a stage that reads features as they are
EXACT = ("none", 1e-5, "secret")  # and of aggregate without noise


def held_by(owner, label, training, clients, classes):
    """Samples by their owners, of which the first ``training`` ones are for training."""
    halves = np.split(np.arange(len(label)), [training])
    return Clients(*(assign(owner[rows], rows, label[rows], clients, classes) for rows in halves))


def write_federation(folder, clients, width, classes, training, testing, seed=0):
    """Write index, clients, features and server; the last client has no test samples."""
    rng = np.random.default_rng(seed)
    n = training + testing
    label = rng.integers(classes, size=n).astype(np.int32)
    split = np.repeat([TRAIN, TEST], [training, testing]).astype(np.uint8)
    names = tuple(f"class {c}" for c in range(classes))
    write_index(
        folder / "index.h5", Index(label, split, np.zeros(n, np.int32), names, ("all",)), {}
    )
    owner = np.concatenate(
        [rng.integers(0, clients, training), rng.integers(-1, clients - 1, testing)]
    )
    write_clients(folder / "clients.h5", held_by(owner, label, training, clients, classes), {})
    means = rng.normal(0, 200, (classes, width))
    rows = (means[label] + rng.normal(0, 300, (n, width))).astype(np.int16)
    facts = {"step": STEP, "backbone": "random-tiny", "saturated": 0}
    write_features(folder / "features.h5", rows.shape, lambda i, j: rows[i:j], facts, ("numpy",))
    order = np.argsort(label[:training], kind="stable")
    total = moments(rows[:training][order], label[:training][order], classes, STEP)
    write_server(folder / "server.h5", total, aggregate(total, 1.0))
    write_members(folder / "members.h5", Members(np.ones(clients, bool), UNKNOWN))
