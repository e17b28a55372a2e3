"""Accuracy of affine heads: each client's on its own test samples, on all, and of all together.

Class scores are q W + b for fixed-point features q; the prediction is the class with the largest
score, the lowest of them on a tie. Products are taken in float32, the precision that heads are
stored in; every head is scored in the same way.

A client's own samples are scored with its own class prior in b. For everybody's samples, of which
the client's prior is not that, b has even shares of all classes; what the own prior does there is
counted beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Bool, Float32, Int, Num

from pfl.evaluation.metrics import MEAN_SCORE, VOTE, WEIGHT_AVERAGE
from pfl.evaluation.reliability.sums import Reliability, log_probabilities, reliability
from pfl.runtime.parallel import in_order
from pfl.runtime.progress import progress

BLOCK_ROWS = 4096
BLOCK_COLUMNS = 2048
ENSEMBLES = (MEAN_SCORE, VOTE, WEIGHT_AVERAGE)  # see pfl/evaluation/ensemble.py


@dataclass(frozen=True)
class HeadGroup:
    """Heads of k clients, scoring fixed-point features q.

    Attributes:
        weight: W, in units of a feature's step.
        bias: b for samples of nobody in particular.
        own_bias: b for the client's own samples.
    """

    weight: Float32[np.ndarray, "k m d"]
    bias: Float32[np.ndarray, "k d"]
    own_bias: Float32[np.ndarray, "k d"]


HeadRange = Callable[[int, int], HeadGroup]  # heads of clients start … stop - 1


@dataclass(frozen=True)
class Hits:
    """Correct predictions of K heads; a commutative monoid over disjoint sets of samples.

    Attributes:
        own: of head k on the test samples of client k.
        pooled: of head k on all test samples, whoever holds them.
        pooled_own_prior: the same with the prior of client k.
        ensemble: of all heads together, for each of ``ENSEMBLES``.
        reliability: of head k's probabilities on the test samples of client k.
    """

    own: Int[np.ndarray, " clients"]
    pooled: Int[np.ndarray, " clients"]
    pooled_own_prior: Int[np.ndarray, " clients"]
    ensemble: Int[np.ndarray, " kinds"]
    reliability: Reliability

    def __add__(self, other: "Hits") -> "Hits":
        """Hits on the union of two disjoint sets of samples."""
        return Hits(
            self.own + other.own,
            self.pooled + other.pooled,
            self.pooled_own_prior + other.pooled_own_prior,
            self.ensemble + other.ensemble,
            self.reliability + other.reliability,
        )

    @staticmethod
    def zero(clients: int) -> "Hits":
        """Hits on no samples."""
        none = np.zeros(clients, np.int64)
        ensemble = np.zeros(len(ENSEMBLES), np.int64)
        return Hits(none, none, none, ensemble, Reliability.zero(clients))


def score(
    rows: Num[np.ndarray, "n m"],
    label: Int[np.ndarray, " n"],
    owner: Int[np.ndarray, " n"],
    heads: HeadRange,
    averages: HeadGroup,
    voters: Bool[np.ndarray, " clients"],
    threads: int = 1,
) -> Hits:
    """Count the correct predictions of K heads on n samples.

    Heads are read and multiplied a group of clients at a time, as one matrix of all their columns.
    Memory beyond the arguments: the rows in float32, and for each thread a group of heads and a
    block of scores (some 60 MB). Groups do not depend on ``threads``, nor does the result.

    ``rows`` are fixed-point features, ``owner`` the client of each sample, -1 for nobody, and
    ``averages`` those of the heads with equal weights and with weights N_k.
    """
    clients, classes = len(voters), averages.weight.shape[2]
    rows = rows.astype(np.float32, copy=False)
    size = max(1, BLOCK_COLUMNS // classes)
    ranges = [(k, min(k + size, clients)) for k in range(0, clients, size)]
    work = partial(_score_group, rows, label, owner, heads, voters)
    pooled, personal, votes = [], [], np.zeros((len(rows), classes), np.int64)
    own_scores = np.zeros((len(rows), classes), np.float32)
    groups = in_order(work, ranges, threads)
    for group in progress(groups, clients, "heads", "score", step=size):
        pooled.append(group.pooled)
        personal.append(group.pooled_own_prior)
        votes += group.votes
        own_scores[group.mine] = group.own_scores
    voted = (votes.argmax(1) == label).sum()
    nobody = np.zeros(len(averages.weight), bool)
    together = _score_group(
        rows, label, owner, lambda start, stop: averages, nobody, (0, len(averages.weight))
    )
    mean, weighted = together.pooled
    ensemble = np.array([mean, voted, weighted], np.int64)
    alone = _alone(own_scores, label, owner, clients)
    return Hits(alone[0], np.concatenate(pooled), np.concatenate(personal), ensemble, alone[1])


def score_shared(
    rows: Num[np.ndarray, "n m"],
    label: Int[np.ndarray, " n"],
    owner: Int[np.ndarray, " n"],
    head: Float32[np.ndarray, "m d"],
    clients: int,
) -> Hits:
    """Count the correct predictions of one head that all K clients use, as :func:`score` would.

    ``head`` is W in units of a feature's step; it has no bias. The average and the vote of all are
    that head's too.
    """
    scores = rows.astype(np.float32, copy=False) @ head
    hits = int((scores.argmax(1) == label).sum())
    pooled, ensemble = (np.full(n, hits, np.int64) for n in (clients, len(ENSEMBLES)))
    own, reliable = _alone(scores, label, owner, clients)
    return Hits(own, pooled, pooled, ensemble, reliable)


def score_own(
    rows: Num[np.ndarray, "n m"], label: Int[np.ndarray, " n"], head: HeadGroup
) -> tuple[int, Reliability]:
    """Correct predictions of one client's head on samples of its own, and its reliability."""
    scores = rows.astype(np.float32, copy=False) @ head.weight[0] + head.own_bias[0]
    own, reliable = _alone(scores, label, np.zeros(len(label), np.int64), 1)
    return int(own[0]), reliable


def _alone(
    scores: Float32[np.ndarray, "n d"],
    label: Int[np.ndarray, " n"],
    owner: Int[np.ndarray, " n"],
    clients: int,
) -> tuple[Int[np.ndarray, " clients"], Reliability]:
    """Hits on each client's own samples, and how reliable the probabilities of these are."""
    correct = (scores.argmax(1) == label) & (owner >= 0)
    own = np.bincount(owner[correct], minlength=clients).astype(np.int64)
    return own, reliability(log_probabilities(scores), label, owner, clients)


@dataclass(frozen=True)
class _Group:
    """What k clients' heads say of n samples.

    Attributes:
        mine: numbers of the samples that one of these clients has.
        own_scores: of each of them by its client's head, with the client's prior.
        pooled: correct predictions of each head on all samples.
        pooled_own_prior: the same with the client's prior.
        votes: for each sample and class.
    """

    mine: Int[np.ndarray, " own"]
    own_scores: Float32[np.ndarray, "own d"]
    pooled: Int[np.ndarray, " k"]
    pooled_own_prior: Int[np.ndarray, " k"]
    votes: Int[np.ndarray, "n d"]


def _score_group(
    rows: Float32[np.ndarray, "n m"],
    label: Int[np.ndarray, " n"],
    owner: Int[np.ndarray, " n"],
    heads: HeadRange,
    voters: Bool[np.ndarray, " clients"],
    span: tuple[int, int],
) -> _Group:
    """Predictions of each head for its client's and for all samples, block by block."""
    start, stop = span
    group = heads(start, stop)
    clients, features, classes = group.weight.shape
    columns = np.ascontiguousarray(group.weight.transpose(1, 0, 2)).reshape(features, -1)
    differ = not np.array_equal(group.bias, group.own_bias)
    mine = np.flatnonzero((owner >= start) & (owner < stop))
    own_scores = np.zeros((len(mine), classes), np.float32)
    pooled, personal = np.zeros((2, clients), np.int64)
    votes = np.zeros((len(rows), classes), np.int64)
    for first in range(0, len(rows), BLOCK_ROWS):
        block = slice(first, first + BLOCK_ROWS)
        products = (rows[block] @ columns).reshape(-1, clients, classes)
        here = slice(*np.searchsorted(mine, (first, first + BLOCK_ROWS)))
        holder = owner[mine[here]] - start
        own_scores[here] = products[mine[here] - first, holder] + group.own_bias[holder]
        chosen = (products + group.bias).argmax(2)
        correct = chosen == label[block, None]
        pooled += correct.sum(0)
        if differ:
            personal += ((products + group.own_bias).argmax(2) == label[block, None]).sum(0)
        votes[block] = _votes(chosen[:, voters[start:stop]], classes)
    return _Group(mine, own_scores, pooled, personal if differ else pooled, votes)


def _votes(chosen: Int[np.ndarray, "n k"], classes: int) -> Int[np.ndarray, "n {classes}"]:
    """How many of k heads choose each class, for each sample."""
    cells = chosen + classes * np.arange(len(chosen))[:, None]
    return np.bincount(cells.ravel(), minlength=len(chosen) * classes).reshape(-1, classes)
