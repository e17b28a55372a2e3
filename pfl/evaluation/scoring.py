"""Accuracy of linear heads: each client's on its own test samples, on all, and of all together.

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

from pfl.evaluation.metrics import MEAN_SCORE, VOTE, WEIGHT_AVERAGE
from pfl.runtime.parallel import in_order
from pfl.runtime.progress import progress

BLOCK_ROWS = 4096
BLOCK_COLUMNS = 2048
ENSEMBLES = (MEAN_SCORE, VOTE, WEIGHT_AVERAGE)  # see pfl/evaluation/ensemble.py

HeadRange = Callable[[int, int], Num[np.ndarray, "k m d"]]  # W_k of clients start … stop - 1


@dataclass(frozen=True)
class Hits:
    """Correct predictions of K heads; a commutative monoid over disjoint sets of samples.

    Attributes:
        own: of head k on the test samples of client k.
        pooled: of head k on all test samples, whoever holds them.
        ensemble: of all heads together, for each of ``ENSEMBLES``.
    """

    own: Int[np.ndarray, " clients"]
    pooled: Int[np.ndarray, " clients"]
    ensemble: Int[np.ndarray, " kinds"]

    def __add__(self, other: "Hits") -> "Hits":
        """Hits on the union of two disjoint sets of samples."""
        ensemble = self.ensemble + other.ensemble
        return Hits(self.own + other.own, self.pooled + other.pooled, ensemble)

    @staticmethod
    def zero(clients: int) -> "Hits":
        """Hits on no samples."""
        return Hits(*(np.zeros(n, np.int64) for n in (clients, clients, len(ENSEMBLES))))


def score(
    rows: Num[np.ndarray, "n m"],
    label: Int[np.ndarray, " n"],
    owner: Int[np.ndarray, " n"],
    heads: HeadRange,
    averages: Float32[np.ndarray, "2 m d"],
    voters: Bool[np.ndarray, " clients"],
    threads: int = 1,
) -> Hits:
    """Count the correct predictions of K heads on n samples.

    Heads are read and multiplied a group of clients at a time, as one matrix of all their columns.
    Memory beyond the arguments: the rows in float32, and for each thread a group of heads and a
    block of scores (some 60 MB). Groups do not depend on ``threads``, nor does the result.

    ``rows`` are features in any positive unit, ``owner`` the client of each sample, -1 for nobody,
    and ``averages`` those of the heads with equal weights and with weights N_k.
    """
    clients, classes = len(voters), averages.shape[2]
    rows = rows.astype(np.float32, copy=False)
    size = max(1, BLOCK_COLUMNS // classes)
    ranges = [(k, min(k + size, clients)) for k in range(0, clients, size)]
    work = partial(_score_group, rows, label, owner, heads, voters)
    own, pooled, votes = [], [], np.zeros((len(rows), classes), np.int64)
    groups = in_order(work, ranges, threads)
    for hits, all_hits, cast in progress(groups, clients, "heads", "score", step=size):
        own.append(hits)
        pooled.append(all_hits)
        votes += cast
    voted = (votes.argmax(1) == label).sum()
    nobody = np.zeros(len(averages), bool)
    _, (mean, weighted), _ = _score_group(
        rows, label, owner, lambda start, stop: averages[start:stop], nobody, (0, len(averages))
    )
    ensemble = np.array([mean, voted, weighted], np.int64)
    return Hits(np.concatenate(own), np.concatenate(pooled), ensemble)


def score_shared(
    rows: Num[np.ndarray, "n m"],
    label: Int[np.ndarray, " n"],
    owner: Int[np.ndarray, " n"],
    head: Float[np.ndarray, "m d"],
    clients: int,
) -> Hits:
    """Count the correct predictions of one head that all K clients use, as :func:`score` would.

    Their average and their vote are that head's too.
    """
    scores = rows.astype(np.float32, copy=False) @ head.astype(np.float32)
    correct = scores.argmax(1) == label
    own = np.bincount(owner[correct & (owner >= 0)], minlength=clients)
    hits = int(correct.sum())
    pooled, ensemble = (np.full(n, hits, np.int64) for n in (clients, len(ENSEMBLES)))
    return Hits(own.astype(np.int64), pooled, ensemble)


def _score_group(
    rows: Float32[np.ndarray, "n m"],
    label: Int[np.ndarray, " n"],
    owner: Int[np.ndarray, " n"],
    heads: HeadRange,
    voters: Bool[np.ndarray, " clients"],
    span: tuple[int, int],
) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " k"], Int[np.ndarray, "n d"]]:
    """Hits of each head on its client's and on all samples, and votes for each sample and class."""
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
    return own, pooled, votes


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
