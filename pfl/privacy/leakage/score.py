"""How many samples the attacks expose: their findings compared with the truth.

The attacks never see what is used here; see :mod:`pfl.privacy.leakage.attack`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int16, Int64

from pfl.data.client_features.by_client import ClientSamples, by_client, rows_of
from pfl.data.features.features import Features
from pfl.data.samples.clients import Assignment
from pfl.data.samples.index import Index
from pfl.privacy.leakage.attack import Findings, Intercepted, attack
from pfl.privacy.leakage.modular import residues, times
from pfl.runtime.parallel import in_order

BLOCK_ROWS = 4096
POOL = 2000  # images, about, that the others' are taken from where a test of all takes too long


@dataclass(frozen=True)
class Exposure:
    """What one upload exposes, in samples unless said otherwise.

    Attributes:
        samples: N_k.
        classes: of which there are samples.
        rank: of S.
        single: alone in their class, their feature being a column of B, compared as integers.
        recovered: of these, that the attack found to be alone, from S and B.
        mistaken: classes that it wrongly found to have one sample.
        exact: whether counts came out of exact arithmetic.
        counted: in classes whose count was found right, exactly or by rounding an estimate.
        miscounted: sum over classes of the difference between found and true counts.
        recognized: own ones taken for own ones.
        strangers: images not its own that were tried: all, or of a pool where there is no key.
        confused: of these, taken for own ones.
        everything: whether the attack found that B holds all features, and it does.
    """

    samples: int
    classes: int
    rank: int
    single: int
    recovered: int
    mistaken: int
    exact: bool
    counted: int
    miscounted: int
    recognized: int
    strangers: int
    confused: int
    everything: bool

    @property
    def advantage(self) -> float:
        """Share of own samples recognized less share of strangers confused [Yeom et al. 2018].

        1 if membership is told without error, 0 if the test says nothing or there is nothing to
        try it on.
        """
        if not self.samples or not self.strangers:
            return 0.0
        return self.recognized / self.samples - self.confused / self.strangers


def survey(
    features: Features,
    index: Index,
    assignment: Assignment,
    uploads: Iterable[Intercepted],
    rng: np.random.Generator,
    workers: int,
) -> list[Exposure]:
    """Attack every client's upload, and score on the images of the whole data set.

    Uploads come in the clients' order; ``workers`` of them are attacked at the same time, which
    does not change the result. For ``rng`` see :func:`pfl.privacy.leakage.attack.attack`.

    Raises:
        InputError: the inputs belong to different runs.
    """
    pool = np.arange(0, len(features), max(1, len(features) // POOL))
    pooled = rows_of(features, pool)

    def work(
        task: tuple[ClientSamples, Intercepted, np.random.Generator],
    ) -> tuple[Exposure, Float[np.ndarray, "m keys"]]:
        own, upload, draws = task
        findings = attack(upload, draws)
        exposure = score(findings, own)
        mine, first = np.unique(index.images_of(assignment.of(own.client)), return_index=True)
        if findings.regular is not None:
            others = pooled[~np.isin(pool, mine)]
            confused = recognized(findings, others)
            exposure = replace(exposure, strangers=len(others), confused=confused)
        elif findings.key.shape[1]:  # all images are tried below, so that its own are taken off
            confused = -recognized(findings, own.rows[first])
            exposure = replace(exposure, strangers=len(features) - len(mine), confused=confused)
        return exposure, findings.key

    tasks = zip(
        by_client(features, index, assignment), uploads, rng.spawn(assignment.clients), strict=True
    )
    scored = list(in_order(work, tasks, workers))
    fitting = fitting_images([key for _, key in scored], features)
    return [
        replace(exposure, confused=exposure.confused + int(count))
        for (exposure, _), count in zip(scored, fitting, strict=True)
    ]


def score(findings: Findings, own: ClientSamples) -> Exposure:
    """Compare findings with the samples that the upload is made of; no strangers yet."""
    true = np.bincount(own.labels, minlength=len(findings.cross)).astype(np.int64)
    single = np.flatnonzero(true == 1)
    rows = own.rows[np.searchsorted(own.labels, single)]
    equal = (rows == findings.cross[single]).all(1)
    recovered = int((equal & findings.single[single]).sum())
    return Exposure(
        samples=len(own.labels),
        classes=int((true > 0).sum()),
        rank=findings.rank,
        single=int(equal.sum()),
        recovered=recovered,
        mistaken=int((findings.single & (true != 1)).sum()),
        exact=findings.exact,
        counted=int(true[findings.counts == true].sum()),
        miscounted=int(np.abs(findings.counts - true).sum()),
        recognized=recognized(findings, own.rows),
        strangers=0,
        confused=0,
        everything=findings.everything and recovered == len(own.labels) > 0,
    )


def recognized(findings: Findings, rows: Int16[np.ndarray, "n m"]) -> int:
    """How many of these samples are taken for the client's, block by block."""
    blocks = (rows[start : start + BLOCK_ROWS] for start in range(0, len(rows), BLOCK_ROWS))
    return sum(int(findings.members(block).sum()) for block in blocks)


def fitting_images(
    keys: Sequence[Float[np.ndarray, "m _"]], features: Features
) -> Int64[np.ndarray, " clients"]:
    """For each client's key, how many images fit it, its own among them; 0 without a key."""
    total = np.zeros(len(keys), np.int64)
    keyed = np.array([k for k, key in enumerate(keys) if key.shape[1]], np.int64)
    if not len(keyed):
        return total
    stacked = np.hstack([keys[k] for k in keyed])
    for rows in features.blocks():
        total[keyed] += fits(times(residues(rows), stacked), len(keyed)).sum(0)
    return total


def fits(products: Float[np.ndarray, "n columns"], keys: int) -> Bool[np.ndarray, "n keys"]:
    """Which rows are orthogonal to all vectors of which key, from products with keys in a row."""
    return np.equal(products, 0).reshape(len(products), keys, -1).all(2)
