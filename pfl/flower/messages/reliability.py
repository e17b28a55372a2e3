"""How far a client's probabilities can be believed, as it tells the server: sums, never a sample.

They are :class:`pfl.evaluation.reliability.sums.Reliability` of one client, ``prefix`` before their
names: the negative log-likelihood of its test samples added up, and for each bin of confidence how
many samples are in it, how many of them are hits, and the sum of their confidences. Of a client
with one test sample they are that sample's: how sure the model is of it, and whether it is right.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pfl.errors import InputError
from pfl.evaluation.reliability.sums import BINS, FLOOR, Reliability

LOSS, COUNT, HITS, CONFIDENCE = "loss", "count", "hits", "confidence"


def sums_of(sums: Reliability, prefix: str = "") -> dict[str, float | list[int] | list[float]]:
    """One client's sums by name, fit for a record of numbers."""
    return {
        f"{prefix}{LOSS}": float(sums.loss[0]),
        f"{prefix}{COUNT}": sums.count[0].tolist(),
        f"{prefix}{HITS}": sums.hits[0].tolist(),
        f"{prefix}{CONFIDENCE}": sums.confidence[0].tolist(),
    }


def reliability_of(sent: Mapping[str, Any], prefix: str = "") -> Reliability:
    """Inverse of :func:`sums_of`.

    Raises:
        InputError: these are no sums over samples.
    """
    loss, count, hits, confidence = (
        np.atleast_1d(np.array(sent.get(f"{prefix}{name}", [])))
        for name in (LOSS, COUNT, HITS, CONFIDENCE)
    )
    if loss.shape != (1,) or any(of.shape != (BINS,) for of in (count, hits, confidence)):
        raise InputError(f"its sums of probabilities are not of {BINS} bins")
    slack = 1 + 1e-9  # of sums of floats
    if not (
        count.dtype == hits.dtype == np.int64
        and ((hits >= 0) & (hits <= count)).all()
        and ((confidence >= 0) & (confidence <= slack * count)).all()
        and 0 <= loss[0] <= -slack * FLOOR * count.sum()
    ):
        raise InputError("its sums of probabilities cannot be those of samples")
    return Reliability(
        loss.astype(np.float64), count[None], confidence[None].astype(np.float64), hits[None]
    )
