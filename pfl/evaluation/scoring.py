"""Accuracy of linear heads: each client's on its own test samples, on all, and of their votes.

Class scores are fᵀW; the prediction is the class with the largest score, the lowest of them on a
tie. Features are fixed-point integers q = f / step, and a positive step changes no largest score,
so the integers are scored as they are. Products are taken in float32, the precision that heads
are stored in; every head is scored in the same way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Num

from pfl.runtime.parallel import in_order
from pfl.runtime.progress import progress

BLOCK_ROWS = 4096
BLOCK_COLUMNS = 2048

HeadRange = Callable[[int, int], Num[np.ndarray, "k m d"]]


@dataclass(frozen=True)
class Hits:
    """Correct predictions of K heads; a commutative monoid over disjoint sets of samples.

    Attributes:
        own: of head k on the test samples of client k.
        pooled: of head k on all test samples, whoever holds them.
        voted: of the heads together, each having one vote; the lower class on a tie.
    """

    own: Int[np.ndarray, " clients"]
    pooled: Int[np.ndarray, " clients"]
    voted: int

    def __add__(self, other: "Hits") -> "Hits":
        """Hits on the union of two disjoint sets of samples."""
        voted = self.voted + other.voted
        return Hits(self.own + other.own, self.pooled + other.pooled, voted)

    @staticmethod
    def zero(clients: int) -> "Hits":
        """Hits on no samples."""
        return Hits(np.zeros(clients, np.int64), np.zeros(clients, np.int64), 0)


@dataclass(frozen=True)
class _Part:
    """What a group of clients' heads gives: hits of each, and votes for each sample and class."""

    own: Int[np.ndarray, " k"]
    pooled: Int[np.ndarray, " k"]
    votes: Int[np.ndarray, "n d"]


def score(
    rows: Num[np.ndarray, "n m"],
    label: Int[np.ndarray, " n"],
    owner: Int[np.ndarray, " n"],
    heads: HeadRange,
    shape: tuple[int, int],
    threads: int = 1,
    voters: Bool[np.ndarray, " clients"] | None = None,
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
        voters: whose votes count; everybody's if not given.
    """
    clients, classes = shape
    rows = rows.astype(np.float32, copy=False)
    voters = np.ones(clients, bool) if voters is None else voters
    size = max(1, BLOCK_COLUMNS // classes)
    ranges = [(k, min(k + size, clients)) for k in range(0, clients, size)]
    work = partial(_score_group, rows, label, owner, heads, voters)
    own, pooled, votes = [], [], np.zeros((len(rows), classes), np.int64)
    parts = in_order(work, ranges, threads)
    for part in progress(parts, clients, "heads", "score", step=size):
        own.append(part.own)
        pooled.append(part.pooled)
        votes += part.votes
    voted = int((votes.argmax(1) == label).sum())
    return Hits(np.concatenate(own), np.concatenate(pooled), voted)


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
    hits = int(correct.sum())
    return Hits(own.astype(np.int64), np.full(clients, hits, np.int64), hits)


def _score_group(
    rows: Float32[np.ndarray, "n m"],
    label: Int[np.ndarray, " n"],
    owner: Int[np.ndarray, " n"],
    heads: HeadRange,
    voters: Bool[np.ndarray, " clients"],
    span: tuple[int, int],
) -> _Part:
    start, stop = span
    group = heads(start, stop).astype(np.float32, copy=False)
    clients, features, classes = group.shape
    columns = np.ascontiguousarray(group.transpose(1, 0, 2)).reshape(features, -1)
    own, pooled = np.zeros((2, clients), np.int64)
    votes = np.zeros((len(rows), classes), np.int64)
    for first in range(0, len(rows), BLOCK_ROWS):
        block = slice(first, first + BLOCK_ROWS)
        scores = (rows[block] @ columns).reshape(-1, clients, classes)
        chosen = scores.argmax(2)
        correct = chosen == label[block, None]
        own += _own(correct, owner[block] - start)
        pooled += correct.sum(0)
        votes[block] = _votes(chosen[:, voters[start:stop]], classes)
    return _Part(own, pooled, votes)


def _own(correct: Bool[np.ndarray, "n k"], owner: Int[np.ndarray, " n"]) -> Int[np.ndarray, " k"]:
    """Hits of each head on its client's samples; ``owner`` counts from the group's first client."""
    clients = correct.shape[1]
    mine = np.flatnonzero((owner >= 0) & (owner < clients))
    holder = owner[mine]
    return np.bincount(holder[correct[mine, holder]], minlength=clients)


def _votes(chosen: Int[np.ndarray, "n k"], classes: int) -> Int[np.ndarray, "n {classes}"]:
    """How many of k heads choose each class, for each sample."""
    cells = chosen + classes * np.arange(len(chosen))[:, None]
    return np.bincount(cells.ravel(), minlength=len(chosen) * classes).reshape(-1, classes)
