"""What FedHiP's heads achieve, on each client's and on all test samples.

Where a group takes no part (:mod:`pfl.data.samples.external_group`), they are tested on its
samples too, each client's head and the ensemble of all.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int

from pfl.data.client_features.by_client import check_same_run, rows_of
from pfl.data.features.features import Features
from pfl.data.samples.clients import Assignment, Clients
from pfl.data.samples.external_group import common_test
from pfl.data.samples.index import Index
from pfl.errors import InputError
from pfl.evaluation.accuracies import Accuracies, ClientAccuracies
from pfl.evaluation.ensemble import averages
from pfl.evaluation.metrics import GLOBAL, HEADS, accuracy
from pfl.evaluation.scoring import ENSEMBLES, HeadGroup, Hits, score, score_shared
from pfl.fedhip.closed_form import Knowledge
from pfl.fedhip.heads import Heads, StoredHeads
from pfl.runtime.class_prior import log_share_ratio

BLOCK_BYTES = 1 << 27

# Features, labels and owners of some samples.
_Block = tuple[Float32[np.ndarray, "n m"], Int[np.ndarray, " n"], Int[np.ndarray, " n"]]
Scorer = Callable[..., Hits]  # of one kind of head, given a block


def head_accuracies(
    index: Index,
    clients: Clients,
    features: Features,
    server: Knowledge,
    heads: Heads,
    threads: int = 1,
) -> dict[str, ClientAccuracies]:
    """Score every head on every test sample, reading features in blocks; by ``HEADS``.

    Own and pooled accuracy come from the same products, see :mod:`pfl.evaluation.scoring`. A
    client that left has no accuracy and counts nowhere. How many ``threads`` score groups of
    clients does not change the result.

    Raises:
        InputError: the inputs belong to different runs, or there are no test samples.
    """
    common = common_test(index, clients)
    shape = (clients.test.clients, features.m, len(index.classes))
    _check(index, common, features, server.head.shape, heads.shape, shape)
    check_same_run(features, index, clients.test)
    stayed = heads.stayed
    samples = np.where(stayed, clients.train.sizes, 0)
    even = even_ratio(heads.shares)

    def own(kind: str) -> Scorer:
        def read(start: int, stop: int) -> HeadGroup:
            return head_group(heads.of(kind, server.head, start, stop), features.step, even)

        means = averages(read, samples, stayed, shape[1:])
        return partial(score, heads=read, averages=means, voters=stayed, threads=threads)

    shared = shared_group(server, heads.temperature, features.step).weight[0]
    scorers = {
        kind: partial(score_shared, head=shared, clients=shape[0]) if kind == GLOBAL else own(kind)
        for kind in HEADS
    }
    outside, outer = np.zeros(len(common), bool), len(clients.external)
    outside[clients.external] = True
    hits, external = (
        _hits(scorers, _blocks(index, clients.test, features, mask, stayed), shape[0])
        for mask in (common, outside)
    )
    tested = np.where(stayed, clients.test.sizes, 0)
    return {
        name: _accuracies(
            hits[name],
            external[name] if outer else None,
            stayed,
            tested,
            (int(common.sum()), outer),
        )
        for name in HEADS
    }


def even_ratio(shares: Float64[np.ndarray, " d"]) -> Float64[np.ndarray, " d"]:
    """Log 1/(d π_c), which stands for the prior on samples that are not the client's."""
    return log_share_ratio(np.full(len(shares), 1.0 / len(shares)), shares)


def shared_group(server: Knowledge, temperature: float, step: float) -> HeadGroup:
    """G, without a prior, as it scores features in units of ``step``."""
    weight = (server.head * (temperature * step)).astype(np.float32)[None]
    nothing = np.zeros((1, weight.shape[2]), np.float32)
    return HeadGroup(weight, nothing, nothing)


def head_group(stored: StoredHeads, step: float, even: Float64[np.ndarray, " d"]) -> HeadGroup:
    """Heads as they score features in units of ``step``; ``even`` is log 1/(d π_c)."""
    weight = stored.weight * (stored.scale * step).astype(np.float32)[:, None, None]
    bias = stored.scale[:, None] * stored.bias
    own = bias + stored.prior[:, None] * stored.log_ratio
    common = bias + stored.prior[:, None] * even
    return HeadGroup(weight, common.astype(np.float32), own.astype(np.float32))


def _accuracies(
    hits: Hits,
    external: Hits | None,
    stayed: Bool[np.ndarray, " clients"],
    tested: Int[np.ndarray, " clients"],
    sizes: tuple[int, int],
) -> ClientAccuracies:
    """What hits say of one kind of head; ``sizes`` are those of the common and external samples."""
    own = Accuracies(accuracy(hits.own, tested), tested, reliability=hits.reliability)
    everybody = _on_all(hits, sizes[0], stayed)
    made = ClientAccuracies.of(
        own, everybody, None if external is None else _on_all(external, sizes[1], stayed)
    )
    if np.array_equal(hits.pooled, hits.pooled_own_prior):
        return made
    personal = accuracy(hits.pooled_own_prior, np.where(stayed, sizes[0], 0))
    return replace(made, everybody_own_prior=replace(everybody, clients=personal, ensemble={}))


def _hits(scorers: Mapping[str, Scorer], blocks: Iterator[_Block], clients: int) -> dict[str, Hits]:
    """Correct predictions of each kind of head on the samples of all blocks."""
    hits = {name: Hits.zero(clients) for name in scorers}
    for block in blocks:
        for name, scorer in scorers.items():
            hits[name] += scorer(*block)
    return hits


def _on_all(hits: Hits, samples: int, stayed: Bool[np.ndarray, " clients"]) -> Accuracies:
    """Accuracy of each client's head on so many samples, and of all heads together."""
    counted = np.where(stayed, samples, 0)
    shares = dict(zip(ENSEMBLES, (hits.ensemble / samples).tolist(), strict=True))
    return Accuracies(accuracy(hits.pooled, counted), counted, shares)


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
    index: Index,
    test: Assignment,
    features: Features,
    wanted: Bool[np.ndarray, " n"],
    stayed: Bool[np.ndarray, " clients"],
) -> Iterator[_Block]:
    """Yield features, labels and owners of the wanted samples, block by block.

    What a client had that left is nobody's.
    """
    if not wanted.any():
        return
    owner = np.full(len(index.label), -1, np.int64)
    owner[test.sample] = np.repeat(np.where(stayed, np.arange(test.clients), -1), test.sizes)
    size = max(1, BLOCK_BYTES // (4 * features.m))
    tested = np.flatnonzero(wanted)
    for start in range(0, len(tested), size):
        part = tested[start : start + size]
        rows = rows_of(features, index.images_of(part)).astype(np.float32)
        yield rows, index.label[part], owner[part]
