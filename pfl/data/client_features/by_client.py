"""Features and labels of one client after another, read from ``features.h5`` in file order.

A client's samples lie scattered over the file. HDF5 is slow at picking single rows, so the file
is read in blocks from front to back, once for as many clients as fit into a memory budget.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Int16

from pfl.artifacts.provenance import check_origin
from pfl.data.features.features import Features
from pfl.data.samples.clients import Assignment
from pfl.data.samples.index import Index
from pfl.errors import InputError

BLOCK_ROWS = 4096
BUDGET_BYTES = 1 << 29


@dataclass(frozen=True)
class ClientSamples:
    """The samples of one client, sorted by label, then sample number.

    Attributes:
        client: the client's number k.
        rows: its fixed-point features.
        labels: their classes, ascending.
    """

    client: int
    rows: Int16[np.ndarray, "n_k m"]
    labels: Int[np.ndarray, " n_k"]


def by_client(
    features: Features, index: Index, assignment: Assignment, budget: int = BUDGET_BYTES
) -> Iterator[ClientSamples]:
    """Yield the samples of every client, in ascending order of clients.

    At most ``budget`` bytes of rows are assignment at once, or one client's if that is more.

    Raises:
        InputError: the three inputs belong to different runs.
    """
    check_same_run(features, index, assignment)
    limit = max(1, budget // (2 * features.m))
    for first, last in _spans(assignment.offset, limit):
        start = assignment.offset[first]
        samples = assignment.sample[start : assignment.offset[last]]
        rows, labels = rows_of(features, index.images_of(samples)), index.label[samples]
        for client in range(first, last):
            own = slice(assignment.offset[client] - start, assignment.offset[client + 1] - start)
            yield ClientSamples(client, rows[own], labels[own])


def check_same_run(features: Features, index: Index, assignment: Assignment) -> None:
    """Refuse features, an index and clients that do not go together.

    Raises:
        InputError: they were made from different images or indices, or their sizes differ.
    """
    check_origin("features", features.images_sha256, "images of the index", index.images_sha256)
    check_origin("clients", assignment.index_sha256, "index", index.sha256)
    highest = assignment.sample.max(initial=-1)
    if len(features) != index.images or highest >= len(index.label):
        raise InputError(
            f"The features are of {len(features)} images, the index of {len(index.label)} samples "
            f"of {index.images} images, and clients hold samples up to number {highest}: these "
            "files belong to different runs. Run `dvc repro`, which makes them anew."
        )


def _spans(offset: Int[np.ndarray, " clients_plus_1"], limit: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of clients with at most ``limit`` rows together, never empty."""
    first, clients = 0, len(offset) - 1
    while first < clients:
        last = int(np.searchsorted(offset, offset[first] + limit, side="right")) - 1
        last = max(first + 1, min(last, clients))
        yield first, last
        first = last


def rows_of(features: Features, images: Int[np.ndarray, " n"]) -> Int16[np.ndarray, "n m"]:
    """Rows of the given images, in the given order; an image may come more than once."""
    order = np.argsort(images, kind="stable")
    ascending = images[order]
    rows = np.empty((len(images), features.m), np.int16)
    for start in range(0, len(features), BLOCK_ROWS):
        low, high = np.searchsorted(ascending, (start, start + BLOCK_ROWS))
        if low < high:
            stop, wanted = min(start + BLOCK_ROWS, len(features)), ascending[low:high] - start
            rows[order[low:high]] = features.rows(start, stop, wanted)
    return rows
