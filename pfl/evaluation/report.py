"""What is told of FedHiP's heads: few numbers for all clients, and a line a client."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Bool

from pfl.artifacts.csv import DIGITS, csv_text
from pfl.evaluation.heads import Evaluation, Together
from pfl.evaluation.metrics import (
    CLIENT_MEAN,
    EXTERNAL_TEST,
    GLOBAL_TEST,
    HEADS,
    MEAN_SCORE,
    NEW_TEST,
    summarize,
)
from pfl.fedhip.families.table import Family

CHOICE = ("family", "alpha", "beta", "rho")  # of a client's personalized head


def metrics(result: Evaluation) -> dict[str, Any]:
    """Few numbers for all clients together, fit for JSON: rounded, null where unknown.

    Per kind of head: ``mean``, ``weighted``, ``std`` and ``worst-decile`` of
    :class:`pfl.evaluation.metrics.Summary`; ``global-test``, the mean over clients of the accuracy
    on all test samples; ``new-test``, the ensembles there, of
    :class:`pfl.evaluation.ensemble.HeadEnsemble`; and ``external-test``, the ensembles on the
    group that takes no part with ``client-mean``, the mean over clients of the accuracy there;
    null where all groups take part. ``families`` counts the clients whose personalized head is of
    each family. All numbers but ``clients-left-out`` are of the clients that did not leave.
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
            GLOBAL_TEST: _client_mean(result.pooled[name], stayed),
            NEW_TEST: _ensemble(result.pooled[name]),
            EXTERNAL_TEST: None,
        }
        if result.external:
            outside = result.external[name]
            mean = {CLIENT_MEAN: _client_mean(outside, stayed)}
            told[name][EXTERNAL_TEST] = _ensemble(outside) | mean
    families = [one.family for one in result.chosen if one is not None]
    told["families"] = {name.value: families.count(name) for name in Family if name in families}
    told["clients"] = int(stayed.sum())
    told["clients-without-test"] = int((samples[stayed] == 0).sum())
    told["clients-left-out"] = int((~stayed).sum())
    return told


def _client_mean(found: Together, stayed: Bool[np.ndarray, " clients"]) -> float | None:
    return _rounded(float(found.each[stayed].mean()))


def _ensemble(found: Together) -> dict[str, float | None]:
    return {
        name.replace("_", "-"): _rounded(value) for name, value in asdict(found.ensemble).items()
    }


def brief(told: Mapping[str, Any]) -> dict[str, object]:
    """Few columns for `dvc exp show`: the mean of each kind of head, and its external test.

    Of the latter the first ensemble, and only where a group takes no part.
    """
    few: dict[str, object] = {"fedhip": {name: told[name]["mean"] for name in HEADS}}
    if any(told[name][EXTERNAL_TEST] for name in HEADS):
        first = {name: told[name][EXTERNAL_TEST][MEAN_SCORE] for name in HEADS}
        few["fedhip-external"] = first
    return few


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(value, DIGITS)


def table(result: Evaluation) -> str:
    """One line of CSV a client; an unknown accuracy and a parameter not used are empty cells.

    Of a client that left only the samples are told.
    """
    train, test = result.clients.train, result.clients.test
    names = list(result.own)
    header = ["client", "train", "test", "classes", *CHOICE, "local-beta", *names]
    header += [f"{GLOBAL_TEST}:{name}" for name in names]
    header += [f"{EXTERNAL_TEST}:{name}" for name in result.external]
    columns = [
        range(train.clients),
        train.sizes.tolist(),
        test.sizes.tolist(),
        (train.count > 0).sum(1).tolist(),
        *([getattr(one, name, math.nan) for one in result.chosen] for name in CHOICE),
        result.local_beta.tolist(),
        *(result.own[name].tolist() for name in names),
        *(result.pooled[name].each.tolist() for name in names),
        *(found.each.tolist() for found in result.external.values()),
    ]
    return csv_text(header, zip(*columns, strict=True))
