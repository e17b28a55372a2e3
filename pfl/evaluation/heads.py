"""What the three heads of FedHiP achieve: L_k, G and P_k on each client's and on all test samples.

Where a group takes no part (:mod:`pfl.data.samples.external_group`), they are tested on its
samples too, each client's head and the ensemble of all.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from pfl.data.client_features.by_client import check_same_run, rows_of
from pfl.data.features.features import Features
from pfl.data.samples.clients import Assignment, Clients
from pfl.data.samples.external_group import common_test
from pfl.data.samples.index import Index
from pfl.errors import InputError
from pfl.evaluation.accuracies import Accuracies, ClientAccuracies
from pfl.evaluation.ensemble import averages
from pfl.evaluation.metrics import GLOBAL, HEADS, LOCAL, PERSONALIZED, accuracy
from pfl.evaluation.scoring import ENSEMBLES, HeadRange, Hits, score, score_shared
from pfl.fedhip.heads import Heads

BLOCK_BYTES = 1 << 27

# Features, labels and owners of some samples.
_Block = tuple[Float32[np.ndarray, "n m"], Int[np.ndarray, " n"], Int[np.ndarray, " n"]]
Scorer = Callable[..., Hits]  # of one kind of head, given a block


def head_accuracies(
    index: Index,
    clients: Clients,
    features: Features,
    head: Float[np.ndarray, "m d"],
    heads: Heads,
    threads: int = 1,
) -> dict[str, ClientAccuracies]:
    """Score every head on every test sample, reading features in blocks; by ``HEADS``.

    Own and pooled accuracy come from the same predictions, see :mod:`pfl.evaluation.scoring`. A
    client that left has no accuracy and counts nowhere. ``head`` is G, ``heads`` have L_k and P_k
    of every client. How many ``threads`` score groups of clients does not change the result.

    Raises:
        InputError: the inputs belong to different runs, or there are no test samples.
    """
    common = common_test(index, clients)
    shape = (clients.test.clients, features.m, len(index.classes))
    _check(index, common, features, head.shape, heads.shape, shape)
    check_same_run(features, index, clients.test)
    stayed = heads.stayed
    samples = np.where(stayed, clients.train.sizes, 0)

    def own(read: HeadRange) -> Scorer:
        means = averages(read, samples, stayed, shape[1:])
        return partial(score, heads=read, averages=means, voters=stayed, threads=threads)

    scorers: dict[str, Scorer] = {
        LOCAL: own(heads.local),
        GLOBAL: partial(score_shared, head=head, clients=shape[0]),
        PERSONALIZED: own(heads.personalized),
    }
    outside, outer = np.zeros(len(common), bool), len(clients.external)
    outside[clients.external] = True
    hits, external = (
        _hits(scorers, _blocks(index, clients.test, features, mask), shape[0])
        for mask in (common, outside)
    )
    tested = np.where(stayed, clients.test.sizes, 0)
    return {
        name: ClientAccuracies.of(
            Accuracies(accuracy(hits[name].own, tested), tested),
            _on_all(hits[name], int(common.sum()), stayed),
            _on_all(external[name], outer, stayed) if outer else None,
        )
        for name in HEADS
    }


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
