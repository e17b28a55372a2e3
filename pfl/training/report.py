"""What one run of one method leaves to be read: rounds, clients, and a few numbers for all."""

import math
from dataclasses import asdict

import numpy as np
from jaxtyping import Float

from pfl.artifacts.csv import DIGITS, csv_text
from pfl.data.samples.clients import Clients
from pfl.evaluation.metrics import (
    CLIENT_MEAN,
    EXTERNAL_TEST,
    GLOBAL_TEST,
    LOCAL_TEST,
    NEW_TEST,
    UPLOAD_BYTES,
    VALIDATION,
    summarize,
)
from pfl.training.evaluation import EnsembleScore, Scores
from pfl.training.problem import LocalProblem
from pfl.training.run import Result, Row

FIRST = ["round", "clients", UPLOAD_BYTES]
LAST = [VALIDATION, LOCAL_TEST, NEW_TEST]


def rounds_csv(history: list[Row]) -> str:
    """One line a round; what was not measured then is an empty cell.

    Loss terms and ``train:accuracy`` are means over the samples as they were trained with;
    ``validation`` and ``local-test`` are means over clients; ``new-test`` is the ensemble by mean
    probability. How long a round took is in the log: here, equal runs give equal bytes.
    """
    terms = dict.fromkeys(name for row in history for name in row if name.startswith("train:"))
    names = [*FIRST, *terms, *(name for name in LAST if any(name in row for row in history))]
    return csv_text(names, ([row.get(name, math.nan) for name in names] for row in history))


def clients_csv(problem: LocalProblem, owners: Clients, result: Result) -> str:
    """One line a client: sizes, and its model's accuracy after the last round."""
    tests, scores = problem.tests, result.scores
    columns = {
        "client": range(len(problem.sizes)),
        "train": problem.sizes,
        "validation": [len(data) for data in tests.validation],
        "test": [len(rows) for rows in tests.own],
        "classes": (owners.train.count > 0).sum(1).tolist(),
        "validation-accuracy": scores.clients.validation.tolist(),
        LOCAL_TEST: scores.clients.own.tolist(),
        GLOBAL_TEST: scores.pooled.tolist(),
    }
    if scores.external is not None:
        columns[EXTERNAL_TEST] = scores.outside.tolist()
    return csv_text(list(columns), zip(*columns.values(), strict=True))


def metrics(problem: LocalProblem, result: Result) -> dict[str, object]:
    """Few numbers for all clients together, fit for JSON: after the last round, never the best.

    ``local-test``, ``global-test`` and ``validation`` have ``mean``, ``weighted``, ``std`` and
    ``worst-decile`` of :class:`pfl.evaluation.metrics.Summary`; ``new-test`` and ``external-test``
    the kinds of :class:`pfl.training.evaluation.EnsembleScore`, and the latter ``client-mean``,
    the mean over clients of each one's own model. Unknown is null.
    """
    tests, scores = problem.tests, result.scores
    own = [len(rows) for rows in tests.own]
    held_back = [len(data) for data in tests.validation]
    everybody = [len(tests.pooled)] * len(own)
    return {
        "method": problem.algorithm.name,
        "seed": problem.training.seed,
        "rounds": problem.training.rounds,
        LOCAL_TEST: _summary(scores.clients.own, own),
        GLOBAL_TEST: _summary(scores.pooled, everybody),
        NEW_TEST: _ensemble(scores.new),
        EXTERNAL_TEST: _external(scores),
        VALIDATION: _summary(scores.clients.validation, held_back) if any(held_back) else None,
        UPLOAD_BYTES: int(sum(row[UPLOAD_BYTES] for row in result.history)),
        "clients": len(own),
        "clients-without-training": problem.sizes.count(0),
        "clients-without-test": sum(count == 0 for count in own),
    }


def _summary(values: Float[np.ndarray, " clients"], samples: list[int]) -> dict[str, float | None]:
    """Summary over the clients that have both a model and such samples."""
    counted = np.where(np.isnan(values), 0, np.asarray(samples))
    return _kebab(asdict(summarize(values, counted)))


def _external(scores: Scores) -> dict[str, float | None] | None:
    if scores.external is None:
        return None
    mean = {CLIENT_MEAN: float(np.nanmean(scores.outside))}
    return _ensemble(scores.external) | _kebab(mean)


def _ensemble(score: EnsembleScore) -> dict[str, float | None]:
    return _kebab(asdict(score))


def _kebab(values: dict[str, float]) -> dict[str, float | None]:
    return {
        name.replace("_", "-"): None if math.isnan(value) else round(value, DIGITS)
        for name, value in values.items()
    }
