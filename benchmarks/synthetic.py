"""Data of any size for the benchmarks: random fixed-point features, of clients or as artifacts."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pfl.artifacts.hdf5 import create, put
from pfl.data.partition.partition import PartitionSettings, Scheme, partition_samples
from pfl.data.samples.clients import write_clients
from pfl.data.samples.index import Index, write_index
from pfl.fedhip.moments import Moments, moments

STEP = 2.0**-12


@dataclass(frozen=True)
class Shape:
    """N training and test samples, m features, d classes, K clients."""

    train: int
    test: int
    features: int
    classes: int
    clients: int


def samples(count: int, m: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rectified random features in fixed point, and labels in ascending order."""
    rows = np.rint(np.minimum(rng.exponential(0.4, (count, m)), 6) / STEP).astype(np.int16)
    return rows, np.sort(rng.integers(0, d, count))


def clients_moments(count: int, m: int, d: int, clients: int) -> list[Moments]:
    """Moments of K clients with ``count`` samples each."""
    rng = np.random.default_rng(0)
    return [moments(*samples(count, m, d, rng), d, STEP) for _ in range(clients)]


def write_artifacts(folder: Path, shape: Shape, seed: int = 0) -> None:
    """Write index.h5, clients.h5 and features.h5; features look like rectified, pooled ones."""
    rng = np.random.default_rng(seed)
    n = shape.train + shape.test
    split = (np.arange(n) >= shape.train).astype(np.int64)
    label = rng.integers(0, shape.classes, n)
    names = tuple(f"class {c}" for c in range(shape.classes))
    index = Index(label, split, np.zeros(n, np.int64), names, ("all",))
    settings = PartitionSettings(Scheme.DIRICHLET, shape.clients, 0.1, 2, 10)
    write_index(folder / "index.h5", index, {})
    write_clients(folder / "clients.h5", partition_samples(index, settings, rng), {})
    means = rng.exponential(0.4, (shape.classes, shape.features))
    facts = {"step": STEP, "saturated": 0, "backbone": "synthetic"}
    with create(folder / "features.h5", "features", facts) as file:
        noise = rng.exponential(0.4, (n, shape.features)).astype(np.float32)
        rows = np.clip((means[label] + noise) / 2, 0, 6) / STEP
        put(file, "feature", np.rint(rows).astype(np.int16))
