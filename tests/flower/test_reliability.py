"""Sums of probabilities on their way to the server: they arrive as they were, or are refused."""

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import MetricRecord

from pfl.errors import InputError
from pfl.evaluation.reliability.sums import BINS, Reliability, reliability
from pfl.flower.messages.reliability import reliability_of, sums_of
from tests.evaluation.reliability.test_sums import close, drawn


def one_client():
    log_probability, label, _ = drawn(0)
    return reliability(log_probability, label, np.zeros(len(label), np.int64), 1)


@pytest.mark.parametrize("sums", [one_client(), Reliability.zero(1)])
@pytest.mark.parametrize("prefix", ["", "local:"])
def test_sums_arrive_as_they_were(sums, prefix):
    arrived = reliability_of(MetricRecord(sums_of(sums, prefix)), prefix)
    close(arrived, sums)
    assert np.array_equal(arrived.nll, sums.nll, equal_nan=True)
    assert np.array_equal(arrived.ece, sums.ece, equal_nan=True)


@pytest.mark.parametrize(
    "changed",
    [
        {"loss": -1.0},
        {"loss": float("nan")},
        {"loss": 1e6},
        {"loss": [1.0, 2.0]},
        {"count": [1] * (BINS - 1)},
        {"count": [-1] * BINS},
        {"count": [0.5] * BINS},
        {"hits": [1000] * BINS},
        {"confidence": [1000.0] * BINS},
        {"confidence": [float("nan")] * BINS},
    ],
    ids=str,
)
def test_what_cannot_be_sums_is_refused(changed):
    with pytest.raises(InputError, match="sums of probabilities"):
        reliability_of(sums_of(one_client()) | changed)


@pytest.mark.parametrize("missing", ["loss", "count", "hits", "confidence"])
def test_what_is_missing_is_refused(missing):
    sent = sums_of(one_client())
    del sent[missing]
    with pytest.raises(InputError, match="sums of probabilities"):
        reliability_of(sent)
