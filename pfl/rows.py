"""Feature rows of one client after another, read from ``features.h5`` in ascending order.

A client's samples lie scattered over the file. HDF5 is slow at picking single rows, so the file
is read in blocks from front to back, once for as many clients as fit into a memory budget.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Int, Int16

from pfl.clients import Deal
from pfl.features import Features

BLOCK_ROWS = 4096
BUDGET_BYTES = 1 << 29


def client_rows(
    features: Features, held: Deal, budget: int = BUDGET_BYTES
) -> Iterator[tuple[int, Int16[np.ndarray, "n_k m"]]]:
    """Yield (k, rows of client k) for every client, rows in the order of ``held.of(k)``.

    At most ``budget`` bytes of rows are held at once, or one client's if that is more.
    """
    limit = max(1, budget // (2 * features.m))
    for first, last in _spans(held.offset, limit):
        start = held.offset[first]
        rows = gather(features, held.sample[start : held.offset[last]])
        for client in range(first, last):
            yield client, rows[held.offset[client] - start : held.offset[client + 1] - start]


def _spans(offset: Int[np.ndarray, " clients_plus_1"], limit: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of clients with at most ``limit`` rows together, never empty."""
    first, clients = 0, len(offset) - 1
    while first < clients:
        last = int(np.searchsorted(offset, offset[first] + limit, side="right")) - 1
        last = max(first + 1, min(last, clients))
        yield first, last
        first = last


def gather(features: Features, samples: Int[np.ndarray, " n"]) -> Int16[np.ndarray, "n m"]:
    """Rows of the given samples, in the given order."""
    order = np.argsort(samples, kind="stable")
    ascending = samples[order]
    rows = np.empty((len(samples), features.m), np.int16)
    for start in range(0, len(features), BLOCK_ROWS):
        low, high = np.searchsorted(ascending, (start, start + BLOCK_ROWS))
        if low < high:
            block = features.rows(start, min(start + BLOCK_ROWS, len(features)))
            rows[order[low:high]] = block[ascending[low:high] - start]
    return rows
