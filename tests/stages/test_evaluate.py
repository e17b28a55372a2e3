import csv
import json
import math

import numpy as np
import pytest

from pfl.artifacts.hashing import recorded_sha256
from pfl.artifacts.hdf5 import read, reading
from pfl.artifacts.provenance import Origins
from pfl.data.samples.clients import Clients, assign, read_clients, write_clients
from pfl.data.samples.index import read_index
from pfl.errors import InputError
from pfl.evaluation import heads
from pfl.fedhip.families.table import Candidate, Family
from pfl.fedhip.heads import create_heads
from pfl.fedhip.members import write_upload
from pfl.fedhip.selection.choice import Chosen
from stages.evaluate import evaluate
from tests.synthetic import PLAIN, write_federation

CLIENTS, WIDTH, CLASSES, TRAINING, TESTING = 5, 6, 4, 40, 60
CANDIDATES = (
    Candidate(Family.GLOBAL),
    Candidate(Family.ANCHORED, rho=20.0),
    Candidate(Family.FEDHIP, alpha=3.0, beta=0.5),
    Candidate(Family.LOCAL, beta=7.0),
)
HEADS = ("local", "global", "personalized")
INPUTS = ("index", "clients", "features", "server", "heads")


def write_inputs(folder, clients=CLIENTS, testing=TESTING, left=()):
    """Every input of the stage, from random numbers; the last client has no test samples."""
    write_federation(folder, clients, WIDTH, CLASSES, TRAINING, testing)
    rng = np.random.default_rng(0)
    shape = (clients, WIDTH, CLASSES)
    with create_heads(folder / "heads.h5", shape, CANDIDATES, {"family": "auto"}) as heads:
        for client in range(clients):
            drawn = rng.standard_normal((2, WIDTH, CLASSES))
            losses = rng.uniform(size=len(CANDIDATES))
            chosen = Chosen(*drawn, 3, client % 4, losses)
            heads.add(client, None if client in left else chosen)


def run(folder):
    report = folder / "report"
    write_upload(folder / "upload.json", 5, secure=False, size=1234)
    inputs = [*(folder / f"{name}.h5" for name in INPUTS), folder / "upload.json"]
    evaluate(*inputs, report, *PLAIN)
    rows = list(csv.DictReader((report / "per_client.csv").open()))
    return json.loads((report / "metrics.json").read_text()), rows


@pytest.fixture
def folder(tmp_path):
    write_inputs(tmp_path)
    return tmp_path


def expected(folder):
    """Accuracy of each kind of head by a plain loop: (own, pooled) lists over clients."""
    index, held = read_index(folder / "index.h5"), read_clients(folder / "clients.h5")
    with reading(folder / "features.h5", "features") as file:
        rows = read(file, "feature").astype(float)
    with reading(folder / "heads.h5", "heads") as file:
        heads = {"local": read(file, "local"), "personalized": read(file, "personalized")}
    with reading(folder / "server.h5", "server") as file:
        heads["global"] = [read(file, "head")] * CLIENTS
    everything = np.flatnonzero(index.test)
    return {
        name: [
            [
                np.mean((rows[s] @ heads[name][k]).argmax(1) == index.label[s]) if len(s) else None
                for k, s in enumerate(samples)
            ]
            for samples in ([held.test.of(k) for k in range(CLIENTS)], [everything] * CLIENTS)
        ]
        for name in heads
    }


def test_table_and_metrics_are_those_of_a_plain_loop(folder):
    metrics, rows = run(folder)
    for name, (own, pooled) in expected(folder).items():
        for row, mine, all_of in zip(rows, own, pooled, strict=True):
            assert row[f"local-test:{name}"] == ("" if mine is None else f"{mine:.6f}")
            assert row[f"global-test:{name}"] == f"{all_of:.6f}"
        known = [value for value in own if value is not None]
        tests = metrics[f"fedhip:{name}"]
        assert tests["local-test"]["mean"] == pytest.approx(np.mean(known), abs=1e-6)
        assert tests["local-test"]["std"] == pytest.approx(np.std(known), abs=1e-6)
        assert tests["local-test"]["worst-decile"] == pytest.approx(min(known), abs=1e-6)
        assert tests["global-test"]["mean"] == pytest.approx(np.mean(pooled), abs=1e-6)
        assert tests["upload-bytes"] == (0 if name == "local" else 1234)
    brief = json.loads((folder / "report" / "summary.json").read_text())
    assert brief == {"fedhip": {n: metrics[f"fedhip:{n}"]["local-test"]["mean"] for n in HEADS}}


def test_clients_without_test_samples_are_counted_and_left_empty(folder):
    metrics, rows = run(folder)
    facts = metrics["run"]
    assert (facts["clients"], facts["clients-without-test"]) == (CLIENTS, 1)
    last = rows[-1]
    assert [last["test"], *(last[f"local-test:{n}"] for n in HEADS)] == ["0", "", "", ""]
    assert last["global-test:local"] != ""
    held = read_clients(folder / "clients.h5")
    assert [int(row["test"]) for row in rows] == held.test.sizes.tolist()
    assert [int(row["train"]) for row in rows] == held.train.sizes.tolist()
    assert [int(row["classes"]) for row in rows] == (held.train.count > 0).sum(1).tolist()


def test_the_choice_of_each_client_is_told(folder):
    metrics, rows = run(folder)
    assert metrics["run"]["families"] == {"fedhip": 1, "anchored": 1, "local": 1, "global": 2}
    for k, row in enumerate(rows):
        chosen = CANDIDATES[k % len(CANDIDATES)]
        assert row["family"] == chosen.family.value
        for name in ("alpha", "beta", "rho"):
            value = getattr(chosen, name)
            assert row[name] == ("" if math.isnan(value) else f"{value:.6f}")
        assert row["local-beta"] == "7.000000"


def test_clients_that_left_count_nowhere_and_have_empty_cells(tmp_path):
    """All that is told is of the others, and what a plain mean over them gives."""
    write_inputs(tmp_path)
    whole, every = run(tmp_path)
    write_inputs(tmp_path, left=(1, 4))
    metrics, rows = run(tmp_path)
    told = ("clients", "clients-without-test", "clients-left-out")
    assert [metrics["run"][name] for name in told] == [3, 0, 2]
    assert [whole["run"][name] for name in told] == [5, 1, 0]
    assert metrics["run"]["families"] == {"fedhip": 1, "local": 1, "global": 1}
    for k, (row, before) in enumerate(zip(rows, every, strict=True)):
        if k in (1, 4):
            known = {name for name, value in row.items() if value}
            assert known == {"client", "train", "test", "classes"}
            assert all(row[name] == before[name] for name in known)
        else:
            assert row == before
    for name in HEADS:
        for test in ("local-test", "global-test"):
            mean = np.mean([float(every[k][f"{test}:{name}"]) for k in (0, 2, 3)])
            assert metrics[f"fedhip:{name}"][test]["mean"] == pytest.approx(mean, abs=1e-6)


@pytest.mark.parametrize("source", ["server", "clients", "features"])
def test_heads_made_from_something_else_are_refused(folder, source):
    """All sizes agree: only what the heads record tells."""
    actual = {
        name: recorded_sha256(folder / f"{name}.h5", name)
        for name in ("server", "clients", "features")
    }
    heads, shape = folder / "heads.h5", (CLIENTS, WIDTH, CLASSES)
    with create_heads(heads, shape, CANDIDATES, {}, Origins(**actual)):
        pass
    run(folder)
    with create_heads(heads, shape, CANDIDATES, {}, Origins(**{**actual, source: "0" * 64})):
        pass
    with pytest.raises(InputError, match=f"heads and the {source}.* belong to different runs"):
        run(folder)


def test_one_client_makes_own_and_global_test_set_the_same(tmp_path):
    write_inputs(tmp_path, clients=2)
    held = read_clients(tmp_path / "clients.h5")
    index = read_index(tmp_path / "index.h5")
    rows = np.flatnonzero(index.test)
    everything = assign(np.zeros(len(rows), int), rows, index.label[rows], 2, CLASSES)
    write_clients(tmp_path / "clients.h5", Clients(held.train, everything), {})
    _, told = run(tmp_path)
    for name in HEADS:
        assert told[0][f"local-test:{name}"] == told[0][f"global-test:{name}"]


def test_nobody_with_test_samples_is_null_and_not_zero(folder):
    held = read_clients(folder / "clients.h5")
    empty = np.empty(0, int)
    nobody = assign(empty, empty, empty, CLIENTS, CLASSES)
    write_clients(folder / "clients.h5", Clients(held.train, nobody), {})
    metrics, _ = run(folder)
    assert metrics["run"]["clients-without-test"] == CLIENTS
    assert metrics["fedhip:personalized"]["local-test"]["mean"] is None
    assert not math.isnan(metrics["fedhip:personalized"]["global-test"]["mean"])


def test_same_inputs_same_bytes_whatever_the_block_and_the_threads(folder, monkeypatch):
    def outputs():
        run(folder)
        return {path.name: path.read_bytes() for path in (folder / "report").iterdir()}

    first = outputs()
    figures = {f"{name}.{kind}" for name in ("accuracy", "gain", "path") for kind in ("png", "svg")}
    assert set(first) == {"metrics.json", "summary.json", "per_client.csv"} | figures
    assert outputs() == first
    monkeypatch.setattr(heads, "BLOCK_BYTES", 4 * WIDTH * 7)
    monkeypatch.setattr("stages.evaluate.cores", lambda: 3)
    assert outputs() == first


def test_inputs_of_different_runs_are_refused_before_anything_is_written(folder, tmp_path):
    run(folder)
    before = (folder / "report" / "metrics.json").read_bytes()
    with create_heads(folder / "heads.h5", (CLIENTS + 1, WIDTH, CLASSES), CANDIDATES, {}):
        pass
    with pytest.raises(InputError, match="belong to different runs: 5 clients"):
        run(folder)
    assert (folder / "report" / "metrics.json").read_bytes() == before


def test_data_without_test_samples_are_refused(tmp_path):
    write_inputs(tmp_path, testing=0)
    with pytest.raises(InputError, match="no test samples"):
        run(tmp_path)
