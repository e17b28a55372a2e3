"""One form of results: every test of every method in the same place, and unknown told as such."""

import csv
import io
import json

import numpy as np
import pytest

from pfl.artifacts.json import json_text
from pfl.evaluation.accuracies import Accuracies, ClientAccuracies, clients_csv, metrics
from pfl.evaluation.metrics import TESTS
from pfl.evaluation.reliability.sums import Reliability, log_probabilities, reliability

OVER_CLIENTS = {"mean", "weighted", "std", "worst-decile"}
PROBABILITIES = {"nll", "worst-nll", "ece", "worst-ece"}


def of(*values, ensemble=()):
    return Accuracies(np.array(values), np.arange(1, len(values) + 1), dict(ensemble))


def full():
    """A method that was tested in every way; the second client has no test samples."""
    common = of(0.25, 0.5, 1.0, ensemble={"mean-score": 0.5, "vote": 0.75})
    return ClientAccuracies.of(of(0.5, np.nan, 1.0), common, common, of(np.nan, 1.0, np.nan))


def test_every_method_has_every_test_in_its_place():
    told = metrics({"a": (full(), 10), "b": (ClientAccuracies(of(0.5)), 0)}, {"clients": 3})
    assert list(told) == ["a", "b", "run"]
    assert all(list(told[name]) == [*TESTS, "upload-bytes"] for name in "ab")
    assert set(told["a"]["local-test"]) == set(told["a"]["validation"]) == OVER_CLIENTS
    assert set(told["a"]["global-test"]) == OVER_CLIENTS
    assert told["a"]["new-test"] == {"mean-score": 0.5, "vote": 0.75}
    assert told["a"]["external-test"] == told["a"]["global-test"] | told["a"]["new-test"]
    assert [name for name, made in told["b"].items() if made is None] == list(TESTS[1:])
    assert (told["a"]["upload-bytes"], told["run"]) == (10, {"clients": 3})


def test_clients_without_a_value_count_nowhere():
    told = full().summary()["local-test"]
    assert told == {"mean": 0.75, "weighted": 0.875, "std": 0.25, "worst-decile": 0.5}
    nobody = ClientAccuracies(of(np.nan)).summary()["local-test"]
    assert nobody == dict.fromkeys(OVER_CLIENTS)
    assert json.loads(json_text(nobody)) == nobody


def test_numbers_are_rounded_as_in_tables():
    accuracies = ClientAccuracies(of(1 / 3))
    line = clients_csv({"client": [0]}, {"a": accuracies}).splitlines()[1]
    assert line == "0,0.333333"
    assert accuracies.summary()["local-test"]["mean"] == 0.333333


@pytest.mark.parametrize(
    ("methods", "columns"),
    [
        ("a", ["local-test", "global-test", "external-test", "validation-accuracy"]),
        ("ab", ["local-test:a", "local-test:b", "global-test:a", "global-test:b",
                "external-test:a", "external-test:b", "validation-accuracy:a",
                "validation-accuracy:b"]),
    ],
)  # fmt: skip
def test_a_line_a_client_and_a_column_a_test(methods, columns):
    text = clients_csv({"client": range(3), "train": [7, 8, 9]}, dict.fromkeys(methods, full()))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0]) == ["client", "train", *columns]
    assert [row["train"] for row in rows] == ["7", "8", "9"]
    assert [row[columns[0]] for row in rows] == ["0.500000", "", "1.000000"]


def told(clients=3, seed=0):
    """A local test with probabilities; the last client has no samples."""
    rng = np.random.default_rng(seed)
    scores, label = rng.normal(size=(50, 4)), rng.integers(0, 4, 50)
    sums = reliability(log_probabilities(scores), label, rng.integers(0, clients - 1, 50), clients)
    values = np.divide(
        sums.hits.sum(1), sums.samples, where=sums.samples > 0, out=np.full(3, np.nan)
    )
    return ClientAccuracies(Accuracies(values, sums.samples, reliability=sums))


def test_probabilities_are_told_where_there_are_some_and_nowhere_else():
    numbers = metrics({"a": (told(), 0), "b": (full(), 0)}, {})
    assert set(numbers["a"]["local-test"]) == OVER_CLIENTS | PROBABILITIES
    assert set(numbers["b"]["local-test"]) == OVER_CLIENTS
    sums = told().local.reliability
    assert numbers["a"]["local-test"]["nll"] == round(np.nanmean(sums.nll), 6)
    assert numbers["a"]["local-test"]["worst-ece"] == round(np.nanmax(sums.ece), 6)
    assert json.loads(json_text(numbers)) == numbers
    header = clients_csv({}, {"a": told(), "b": full()}).splitlines()[0].split(",")
    assert [name for name in header if name[:3] in PROBABILITIES] == ["nll:a", "ece:a"]


def test_a_table_read_again_has_each_client_s_probabilities():
    of_clients = told()
    text = clients_csv({"client": range(3)}, {"a": of_clients})
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0]) == ["client", "local-test", "nll", "ece"]
    for name, values in (("nll", of_clients.local.nll), ("ece", of_clients.local.ece)):
        read = [float(row[name] or "nan") for row in rows]
        np.testing.assert_allclose(read, values, atol=5e-7)


def test_nobody_s_probabilities_are_unknown():
    nobody = Accuracies(np.array([np.nan]), np.array([0]), reliability=Reliability.zero(1))
    assert nobody.summary() == dict.fromkeys(OVER_CLIENTS | PROBABILITIES)
