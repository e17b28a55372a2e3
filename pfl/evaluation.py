"""What the three heads of FedHiP achieve: L_k, G and P_k on each client's and on all test samples.

:func:`evaluate` counts, :func:`metrics` and :func:`table` tell.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from pfl.clients import Clients, Deal
from pfl.errors import InputError
from pfl.features import Features
from pfl.heads import Heads
from pfl.index import Index
from pfl.metrics import accuracy, summarize
from pfl.rows import check_same_run, gather
from pfl.scoring import Hits, score, score_shared
from pfl.selection.candidates import Candidate, Family
from pfl.tables import DIGITS, csv_text
from pfl.vocabulary import GLOBAL, HEADS, LOCAL, PERSONALIZED

BLOCK_BYTES = 1 << 27
CHOICE = ("family", "alpha", "beta", "rho")  # of a client's personalized head


@dataclass(frozen=True)
class Evaluation:
    """Accuracy of each kind of head, by the names ``local``, ``global`` and ``personalized``.

    Attributes:
        clients: who holds what.
        chosen: the family and parameters of each client's personalized head, None where it left.
        local_beta: β of each client's local head, NaN where it left.
        own: accuracy of each client's head on its own test samples, NaN where it has none or left.
        pooled: accuracy of each client's head on all test samples, NaN where it left.
    """

    clients: Clients
    chosen: tuple[Candidate | None, ...]
    local_beta: Float[np.ndarray, " clients"]
    own: dict[str, Float[np.ndarray, " clients"]]
    pooled: dict[str, Float[np.ndarray, " clients"]]

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
    """Score every head on every test sample, reading the features once, in blocks.

    Own and pooled accuracy come from the same predictions, see :mod:`pfl.scoring`.

    Args:
        index: labels and splits.
        clients: who holds which test samples.
        features: all features.
        head: the global head G.
        heads: L_k and P_k of every client.
        threads: groups of clients scored at the same time; does not change the result.

    Raises:
        InputError: the inputs belong to different runs, or there are no test samples.
    """
    count = clients.test.clients
    shape = (count, features.m, len(index.classes))
    _check(index, features, head.shape, heads.shape, shape)
    check_same_run(features, index, clients.test)
    hits = {name: Hits.zero(count) for name in HEADS}
    of_clients = {LOCAL: heads.local, PERSONALIZED: heads.personalized}
    for rows, label, owner in _test_blocks(index, clients.test, features):
        hits[GLOBAL] += score_shared(rows, label, owner, head, count)
        for name, source in of_clients.items():
            hits[name] += score(rows, label, owner, source, (count, shape[2]), threads)
    chosen, local = heads.chosen, heads.chosen_local
    stayed = _stayed(chosen)
    own, everybody = (np.where(stayed, n, 0) for n in (clients.test.sizes, index.test.sum()))
    return Evaluation(
        clients,
        chosen,
        np.array([math.nan if one is None else one.beta for one in local]),
        {name: accuracy(hit.own, own) for name, hit in hits.items()},
        {name: accuracy(hit.pooled, everybody) for name, hit in hits.items()},
    )


def _stayed(chosen: Sequence[Candidate | None]) -> Bool[np.ndarray, " clients"]:
    """Which clients did not leave: those that chose a head."""
    return np.array([one is not None for one in chosen], bool)


def _check(
    index: Index,
    features: Features,
    shared: tuple[int, ...],
    own: tuple[int, int, int],
    expected: tuple[int, int, int],
) -> None:
    if not index.test.any():
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


def _test_blocks(
    index: Index, test: Deal, features: Features
) -> Iterator[tuple[Float32[np.ndarray, "n m"], Int[np.ndarray, " n"], Int[np.ndarray, " n"]]]:
    """Yield features, labels and owners of the test samples, block by block."""
    owner = np.full(len(index.label), -1, np.int64)
    owner[test.sample] = np.repeat(np.arange(test.clients), test.sizes)
    size = max(1, BLOCK_BYTES // (4 * features.m))
    tested = np.flatnonzero(index.test)
    for start in range(0, len(tested), size):
        part = tested[start : start + size]
        rows = gather(features, index.images_of(part)).astype(np.float32)
        yield rows, index.label[part], owner[part]


def metrics(result: Evaluation) -> dict[str, Any]:
    """Few numbers for all clients together, fit for JSON: rounded, null where unknown.

    Per kind of head: ``mean``, ``weighted``, ``std`` and ``worst-decile`` of
    :class:`pfl.metrics.Summary`, and ``global-test``, the mean over clients of the accuracy on all
    test samples. ``families`` counts the clients whose personalized head is of each family. All
    numbers but ``clients-left-out`` are of the clients that did not leave.
    """
    samples, stayed = result.tested, result.stayed
    told: dict[str, Any] = {}
    for name, values in result.own.items():
        summary = summarize(values, samples)
        told[name] = {
            "mean": _rounded(summary.mean),
            "weighted": _rounded(summary.weighted),
            "std": _rounded(summary.std),
            "worst-decile": _rounded(summary.worst_decile),
            "global-test": _rounded(float(result.pooled[name][stayed].mean())),
        }
    families = [one.family for one in result.chosen if one is not None]
    told["families"] = {name.value: families.count(name) for name in Family if name in families}
    told["clients"] = int(stayed.sum())
    told["clients-without-test"] = int((samples[stayed] == 0).sum())
    told["clients-left-out"] = int((~stayed).sum())
    return told


def brief(told: Mapping[str, Any]) -> dict[str, object]:
    """Of :func:`metrics` the mean of each kind of head alone: few columns for `dvc exp show`."""
    return {"fedhip": {name: told[name]["mean"] for name in HEADS}}


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(value, DIGITS)


def table(result: Evaluation) -> str:
    """One line of CSV a client; an unknown accuracy and a parameter not used are empty cells.

    Of a client that left only the samples are told.
    """
    train, test = result.clients.train, result.clients.test
    names = list(result.own)
    header = ["client", "train", "test", "classes", *CHOICE, "local-beta", *names]
    header += [f"global-test:{name}" for name in names]
    columns = [
        range(train.clients),
        train.sizes.tolist(),
        test.sizes.tolist(),
        (train.count > 0).sum(1).tolist(),
        *([getattr(one, name, math.nan) for one in result.chosen] for name in CHOICE),
        result.local_beta.tolist(),
        *(result.own[name].tolist() for name in names),
        *(result.pooled[name].tolist() for name in names),
    ]
    return csv_text(header, zip(*columns, strict=True))
