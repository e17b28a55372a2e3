"""What the three heads of FedHiP achieve: L_k, G and P_k on each client's and on all test samples.

Where a group takes no part (:mod:`pfl.data.samples.external_group`), they are tested on its
samples too, each client's head and the ensemble of all. The numbers are told by
:mod:`pfl.evaluation.report`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from pfl.data.client_features.by_client import check_same_run, rows_of
from pfl.data.features.features import Features
from pfl.data.samples.clients import Assignment, Clients
from pfl.data.samples.external_group import common_test
from pfl.data.samples.index import Index
from pfl.errors import InputError
from pfl.evaluation.ensemble import HeadEnsemble, averages
from pfl.evaluation.metrics import GLOBAL, HEADS, LOCAL, PERSONALIZED, accuracy
from pfl.evaluation.scoring import HeadRange, Hits, score, score_shared
from pfl.fedhip.families.table import Candidate
from pfl.fedhip.heads import Heads

BLOCK_BYTES = 1 << 27

# Features, labels and owners of some samples.
_Block = tuple[Float32[np.ndarray, "n m"], Int[np.ndarray, " n"], Int[np.ndarray, " n"]]


@dataclass(frozen=True)
class Together:
    """Accuracy of one kind of head on samples that are no client's in particular.

    Attributes:
        each: of each client's head, NaN where it left.
        ensemble: of all of them together.
    """

    each: Float[np.ndarray, " clients"]
    ensemble: HeadEnsemble


@dataclass(frozen=True)
class Evaluation:
    """Accuracy of each kind of head, by the names ``local``, ``global`` and ``personalized``.

    Attributes:
        clients: who holds what.
        chosen: the family and parameters of each client's personalized head, None where it left.
        local_beta: β of each client's local head, NaN where it left.
        own: accuracy of each client's head on its own test samples, NaN where it has none or left.
        pooled: on all test samples of the groups that take part.
        external: on all samples of the group that takes no part; nothing where all do.
    """

    clients: Clients
    chosen: tuple[Candidate | None, ...]
    local_beta: Float[np.ndarray, " clients"]
    own: dict[str, Float[np.ndarray, " clients"]]
    pooled: dict[str, Together]
    external: dict[str, Together]

    @property
    def stayed(self) -> Bool[np.ndarray, " clients"]:
        """Which clients did not leave."""
        return _stayed(self.chosen)

    @property
    def tested(self) -> Int[np.ndarray, " clients"]:
        """Test samples of each client that count: none of those that left."""
        return np.where(self.stayed, self.clients.test.sizes, 0)


def evaluate(
    index: Index,
    clients: Clients,
    features: Features,
    head: Float[np.ndarray, "m d"],
    heads: Heads,
    threads: int = 1,
) -> Evaluation:
    """Score every head on every test sample, reading features in blocks.

    Own and pooled accuracy come from the same predictions, see :mod:`pfl.evaluation.scoring`.

    Args:
        index: labels and splits.
        clients: who holds which test samples, and which are external.
        features: all features.
        head: the global head G.
        heads: L_k and P_k of every client.
        threads: groups of clients scored at the same time; does not change the result.

    Raises:
        InputError: the inputs belong to different runs, or there are no test samples.
    """
    common = common_test(index, clients)
    shape = (clients.test.clients, features.m, len(index.classes))
    _check(index, common, features, head.shape, heads.shape, shape)
    check_same_run(features, index, clients.test)
    chosen, local = heads.chosen, heads.chosen_local
    stayed = _stayed(chosen)
    samples = np.where(stayed, clients.train.sizes, 0)
    kinds = {GLOBAL: _Kind(None, np.stack([head, head]).astype(np.float32))}
    for name, source in ((LOCAL, heads.local), (PERSONALIZED, heads.personalized)):
        kinds[name] = _Kind(source, averages(source, samples, stayed, shape[1:]))
    external = np.zeros(len(common), bool)
    external[clients.external] = True
    found, outside = (
        _count(kinds, _blocks(index, clients.test, features, mask), shape, stayed, threads)
        for mask in (common, external)
    )
    tested = np.where(stayed, clients.test.sizes, 0)
    return Evaluation(
        clients,
        chosen,
        np.array([math.nan if one is None else one.beta for one in local]),
        {name: accuracy(found[name].hits.own, tested) for name in HEADS},
        {name: found[name].together(int(common.sum()), stayed) for name in HEADS},
        {name: outside[name].together(len(clients.external), stayed) for name in HEADS}
        if len(clients.external)
        else {},
    )


@dataclass(frozen=True)
class _Kind:
    """The heads of one kind: each client's, or None where all have the first of the averages."""

    heads: HeadRange | None
    averages: Float32[np.ndarray, "2 m d"]


@dataclass(frozen=True)
class _Found:
    """Correct predictions of one kind of head: each client's, and the two averages'."""

    hits: Hits
    averaged: Hits

    def together(self, samples: int, stayed: Bool[np.ndarray, " clients"]) -> Together:
        """What they are of so many samples."""
        mean, weighted = (self.averaged.pooled / samples).tolist()
        ensemble = HeadEnsemble(mean, self.hits.voted / samples, weighted)
        return Together(accuracy(self.hits.pooled, np.where(stayed, samples, 0)), ensemble)


def _count(
    kinds: Mapping[str, _Kind],
    blocks: Iterator[_Block],
    shape: tuple[int, int, int],
    stayed: Bool[np.ndarray, " clients"],
    threads: int,
) -> dict[str, _Found]:
    """Correct predictions of each kind of head on the samples of all blocks."""
    clients, _, classes = shape
    found = {name: _Found(Hits.zero(clients), Hits.zero(2)) for name in kinds}
    for rows, label, owner in blocks:
        for name, kind in kinds.items():
            if kind.heads is None:
                hits = score_shared(rows, label, owner, kind.averages[0], clients)
            else:
                where = (clients, classes)
                hits = score(rows, label, owner, kind.heads, where, threads, stayed)
            averaged = score(rows, label, owner, _array(kind.averages), (2, classes))
            before = found[name]
            found[name] = _Found(before.hits + hits, before.averaged + averaged)
    return found


def _array(heads: Float32[np.ndarray, "k m d"]) -> HeadRange:
    return lambda start, stop: heads[start:stop]


def _stayed(chosen: Sequence[Candidate | None]) -> Bool[np.ndarray, " clients"]:
    """Which clients did not leave: those that chose a head."""
    return np.array([one is not None for one in chosen], bool)


def _check(
    index: Index,
    common: Bool[np.ndarray, " n"],
    features: Features,
    shared: tuple[int, ...],
    own: tuple[int, int, int],
    expected: tuple[int, int, int],
) -> None:
    if not common.any():
        raise InputError(
            "The data have no test samples, so there is no accuracy to measure: give prepare data "
            "with a test split, or a test-fraction above 0."
        )
    if len(features) != index.images or shared != expected[1:] or own != expected:
        raise InputError(
            f"The inputs of evaluate belong to different runs: {expected[0]} clients, "
            f"{expected[1]} features and {expected[2]} classes of {index.images} images, but "
            f"{len(features)} rows of features, a global head of shape {shared} and clients' "
            f"heads of shape {own}. Run `dvc repro`, which makes them anew."
        )


def _blocks(
    index: Index, test: Assignment, features: Features, wanted: Bool[np.ndarray, " n"]
) -> Iterator[_Block]:
    """Yield features, labels and owners of the wanted samples, block by block."""
    if not wanted.any():
        return
    owner = np.full(len(index.label), -1, np.int64)
    owner[test.sample] = np.repeat(np.arange(test.clients), test.sizes)
    size = max(1, BLOCK_BYTES // (4 * features.m))
    tested = np.flatnonzero(wanted)
    for start in range(0, len(tested), size):
        part = tested[start : start + size]
        rows = rows_of(features, index.images_of(part)).astype(np.float32)
        yield rows, index.label[part], owner[part]
