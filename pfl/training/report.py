"""What one run of one method leaves to be read: rounds, clients, and a few numbers for all."""

import math
from collections.abc import Mapping
from typing import Any

from pfl.artifacts.csv import csv_text
from pfl.data.samples.clients import Clients
from pfl.evaluation.accuracies import clients_csv, metrics
from pfl.evaluation.metrics import LOCAL_TEST, NEW_TEST, UPLOAD_BYTES, VALIDATION
from pfl.training.problem import LocalProblem
from pfl.training.run import Result, Row, other_name
from pfl.training.settings import Models

FIRST = ["round", "clients", UPLOAD_BYTES]
LAST = [VALIDATION, LOCAL_TEST, NEW_TEST]
OTHERS = [f"{test}:{models}" for models in Models for test in (VALIDATION, LOCAL_TEST)]


def rounds_csv(history: list[Row]) -> str:
    """One line a round; what was not measured then is an empty cell.

    Loss terms and ``train:accuracy`` are means over the samples as they were trained with;
    ``validation`` and ``local-test`` are means over clients, ``local-test:trained`` (or
    ``:downloaded``) of the models that `test` does not name; ``new-test`` is the ensemble by mean
    probability. How long a round took is in the log: here, equal runs give equal bytes.
    """
    terms = dict.fromkeys(name for row in history for name in row if name.startswith("train:"))
    tested = [name for name in LAST + OTHERS if any(name in row for row in history)]
    names = [*FIRST, *terms, *tested]
    return csv_text(names, ([row.get(name, math.nan) for name in names] for row in history))


def sent_bytes(history: list[Row]) -> int:
    """What all clients sent in all rounds."""
    return int(sum(row[UPLOAD_BYTES] for row in history))


def run_csv(problem: LocalProblem, owners: Clients, result: Result) -> str:
    """``per_client.csv``: sizes, and each client's model's accuracy after the last round."""
    facts = {
        "client": range(len(problem.sizes)),
        "train": problem.sizes,
        "validation": [len(data) for data in problem.tests.validation],
        "test": [len(rows) for rows in problem.tests.own],
        "classes": (owners.train.count > 0).sum(1).tolist(),
    }
    return clients_csv(facts, {problem.algorithm.name: result.accuracies})


def run_metrics(
    method: str, problem: LocalProblem, result: Result, settings: Mapping[str, object]
) -> dict[str, Any]:
    """``metrics.json``: few numbers for all clients together, after the last round.

    ``method`` is its name in the comparison, ``settings`` are what it alone depends on. Beside the
    tests stands the local test of the models that `test` does not name.
    """
    run = {
        "seed": problem.training.seed,
        "rounds": problem.training.rounds,
        "clients": len(problem.sizes),
        "clients-without-training": problem.sizes.count(0),
        "clients-without-test": sum(len(rows) == 0 for rows in problem.tests.own),
        "settings": settings,
    }
    numbers = metrics({method: (result.accuracies, sent_bytes(result.history))}, run)
    numbers[method][other_name(problem, LOCAL_TEST)] = result.other.local.summary()
    return numbers
