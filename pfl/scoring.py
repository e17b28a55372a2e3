"""Accuracy of linear heads: each client's head on its own test samples and on everybody's.

Class scores are fᵀW; the prediction is the class with the largest score, the lowest of them on a
tie. Features are fixed-point integers q = f / step, and a positive step changes no largest score,
so the integers are scored as they are. Products are taken in float32, the precision that heads
are stored in; every head is scored in the same way.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float, Float32, Int, Num

from pfl.progress import progress

BLOCK_ROWS = 4096
BLOCK_COLUMNS = 2048

HeadRange = Callable[[int, int], Num[np.ndarray, "k m d"]]


@dataclass(frozen=True)
class Hits:
    """Correct predictions of K heads; a commutative monoid over disjoint sets of samples.

    Attributes:
        own: of head k on the test samples of client k.
        pooled: of head k on all test samples, whoever holds them.
    """

    own: Int[np.ndarray, " clients"]
    pooled: Int[np.ndarray, " clients"]

    def __add__(self, other: "Hits") -> "Hits":
        """Hits on the union of two disjoint sets of samples."""
        return Hits(self.own + other.own, self.pooled + other.pooled)

    @staticmethod
    def zero(clients: int) -> "Hits":
        """Hits on no samples."""
        return Hits(np.zeros(clients, np.int64), np.zeros(clients, np.int64))


def score(
    rows: Num[np.ndarray, "n m"],
    label: Int[np.ndarray, " n"],
    owner: Int[np.ndarray, " n"],
    heads: HeadRange,
    shape: tuple[int, int],
    threads: int = 1,
) -> Hits:
    """Count the correct predictions of K heads on n samples.

    Heads are read and multiplied a group of clients at a time, as one matrix of all their columns.
    Memory beyond the arguments: the rows in float32, and for each thread a group of heads and a
    block of scores (some 60 MB). Groups do not depend on ``threads``, nor does the result.

    Args:
        rows: features, in any positive unit.
        label: class of each sample.
        owner: client of each sample, -1 for nobody.
        heads: ``heads(start, stop)`` returns W_k, (stop - start, m, d), for these clients.
        shape: (K, d).
        threads: groups of clients at work at the same time.
    """
    clients, classes = shape
    rows = rows.astype(np.float32, copy=False)
    size = max(1, BLOCK_COLUMNS // classes)
    ranges = [(k, min(k + size, clients)) for k in range(0, clients, size)]
    work = partial(_score_group, rows, label, owner, heads)
    with ThreadPoolExecutor(threads) as pool:
        parts = list(progress(pool.map(work, ranges), clients, "heads", "score", step=size))
    return Hits(
        np.concatenate([part.own for part in parts]),
        np.concatenate([part.pooled for part in parts]),
    )


def score_shared(
    rows: Num[np.ndarray, "n m"],
    label: Int[np.ndarray, " n"],
    owner: Int[np.ndarray, " n"],
    head: Float[np.ndarray, "m d"],
    clients: int,
) -> Hits:
    """Count the correct predictions of one head that all K clients use, as :func:`score` would."""
    scores = rows.astype(np.float32, copy=False) @ head.astype(np.float32)
    correct = scores.argmax(1) == label
    own = np.bincount(owner[correct & (owner >= 0)], minlength=clients)
    return Hits(own.astype(np.int64), np.full(clients, correct.sum(), np.int64))


def _score_group(
    rows: Float32[np.ndarray, "n m"],
    label: Int[np.ndarray, " n"],
    owner: Int[np.ndarray, " n"],
    heads: HeadRange,
    span: tuple[int, int],
) -> Hits:
    start, stop = span
    group = heads(start, stop).astype(np.float32, copy=False)
    clients, features, classes = group.shape
    columns = np.ascontiguousarray(group.transpose(1, 0, 2)).reshape(features, -1)
    total = Hits.zero(clients)
    for first in range(0, len(rows), BLOCK_ROWS):
        block = slice(first, first + BLOCK_ROWS)
        scores = (rows[block] @ columns).reshape(-1, clients, classes)
        total += _hits(scores, label[block], owner[block] - start)
    return total


def _hits(
    scores: Float[np.ndarray, "n k d"], label: Int[np.ndarray, " n"], owner: Int[np.ndarray, " n"]
) -> Hits:
    """Hits of a block; ``owner`` counts from the group's first client."""
    clients = scores.shape[1]
    correct = scores.argmax(2) == label[:, None]
    mine = np.flatnonzero((owner >= 0) & (owner < clients))
    holder = owner[mine]
    own = np.bincount(holder[correct[mine, holder]], minlength=clients)
    return Hits(own.astype(np.int64), correct.sum(0, dtype=np.int64))
