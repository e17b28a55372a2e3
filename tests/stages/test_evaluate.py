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
from pfl.fedhip.affine_head import AffineHead
from pfl.fedhip.families.table import FAMILIES, Family
from pfl.fedhip.heads import create_heads
from pfl.fedhip.members import write_upload
from pfl.fedhip.selection.candidates import PersonalizeSettings
from pfl.fedhip.selection.choice import Chosen, KeptHead, prepare_choice
from pfl.fedhip.server import read_server
from stages.evaluate import evaluate
from tests.plain_heads import plain_heads
from tests.synthetic import PLAIN, write_federation

CLIENTS, WIDTH, CLASSES, TRAINING, TESTING = 5, 6, 4, 40, 60
SETTINGS = PersonalizeSettings(Family.AUTO, alpha=3.0, beta=7.0, rho=20.0, shrinkage=1.0, pull=2.0)
HEADS = ("local", "global", "global-prior", "equation-14", "personalized")
KINDS = ("local", "global-prior", "equation-14", "personalized")
INPUTS = ("index", "clients", "features", "server", "heads")


def alternatives(folder, settings=SETTINGS):
    """One candidate of each family."""
    return prepare_choice(read_server(folder / "server.h5")[1], settings)


def drawn(rng, client, counts, every):
    """Heads from random numbers; the personalized one is of two families."""

    def kept():
        head = AffineHead(rng.standard_normal((WIDTH, CLASSES)), rng.standard_normal(CLASSES))
        return KeptHead(head, *rng.uniform(0.2, 2.0, 2).tolist())

    family = [one.family for one in every.candidates]
    member = np.full(len(FAMILIES), -1)
    stack, factor = np.zeros((2, len(FAMILIES)))
    for place in (client % len(FAMILIES), (client + 1) % len(FAMILIES)):
        member[place] = family.index(FAMILIES[place])
        stack[place], factor[place] = rng.uniform(size=2)
    choice = {"local": family.index(Family.LOCAL), "equation-14": family.index(Family.FEDHIP)}
    ratio = every.log_ratio(counts)
    heads = {kind: kept() for kind in KINDS}
    return Chosen(heads, ratio, choice, member, stack, factor, rng.uniform(size=len(family)))


def write_inputs(folder, clients=CLIENTS, testing=TESTING, left=()):
    """Every input of the stage, from random numbers; the last client has no test samples."""
    write_federation(folder, clients, WIDTH, CLASSES, TRAINING, testing)
    rng = np.random.default_rng(0)
    every, held = alternatives(folder), read_clients(folder / "clients.h5").train
    with create_heads(folder / "heads.h5", clients, every, {"family": "auto"}) as heads:
        for client in range(clients):
            chosen = drawn(rng, client, held.count[client], every)
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
    """Accuracy of each kind of head by a plain loop: on the client's own samples, on everybody's.

    The latter with even shares of classes in the place of the prior, and with the client's prior.
    Last the mean negative log-likelihood of the client's own samples.
    """
    index, held = read_index(folder / "index.h5"), read_clients(folder / "clients.h5")
    with reading(folder / "features.h5", "features") as file:
        rows = read(file, "feature") * file.attrs["step"]
    everything = np.flatnonzero(index.test)

    def right(head, samples, own):
        scores = head.scores(rows[samples], own)
        return np.mean(scores.argmax(1) == index.label[samples]) if len(samples) else None

    def loss(head, samples):
        scores = head.scores(rows[samples], own=True)
        each = np.log(np.exp(scores).sum(1)) - scores[np.arange(len(samples)), index.label[samples]]
        return each.mean() if len(samples) else None

    def one(head, mine):
        pooled = [right(head, everything, own) for own in (False, True)]
        return right(head, mine, own=True), *pooled, loss(head, mine)

    every = plain_heads(folder / "heads.h5", folder / "server.h5")
    return {
        name: [one(head, held.test.of(k)) for k, head in enumerate(heads)]
        for name, heads in every.items()
    }


def test_table_and_metrics_are_those_of_a_plain_loop(folder):
    metrics, rows = run(folder)
    found = expected(folder)
    assert set(found) == set(HEADS)
    for name, clients in found.items():
        for row, (mine, all_of, all_of_prior, nll) in zip(rows, clients, strict=True):
            assert row[f"local-test:{name}"] == ("" if mine is None else f"{mine:.6f}")
            assert row[f"global-test:{name}"] == f"{all_of:.6f}"
            assert row.get(f"global-test-own-prior:{name}", row[f"global-test:{name}"]) == (
                f"{all_of_prior:.6f}"
            )
            assert (nll is None) == (row[f"nll:{name}"] == "")
            assert nll is None or float(row[f"nll:{name}"]) == pytest.approx(nll, rel=1e-3)
        own, pooled, with_prior, _ = (list(values) for values in zip(*clients, strict=True))
        known = [value for value in own if value is not None]
        tests = metrics[f"fedhip:{name}"]
        assert tests["local-test"]["mean"] == pytest.approx(np.mean(known), abs=1e-6)
        assert tests["local-test"]["std"] == pytest.approx(np.std(known), abs=1e-6)
        assert tests["local-test"]["worst-decile"] == pytest.approx(min(known), abs=1e-6)
        assert tests["global-test"]["mean"] == pytest.approx(np.mean(pooled), abs=1e-6)
        if name != "global":
            assert with_prior != pooled, "these numbers have to tell the two apart"
            mean = tests["global-test-own-prior"]["mean"]
            assert mean == pytest.approx(np.mean(with_prior), abs=1e-6)
        else:
            assert tests["global-test-own-prior"] is None
        assert tests["upload-bytes"] == (0 if name == "local" else 1234)
    brief = json.loads((folder / "report" / "summary.json").read_text())
    assert brief == {"fedhip": {n: metrics[f"fedhip:{n}"]["local-test"]["mean"] for n in HEADS}}


def test_clients_without_test_samples_are_counted_and_left_empty(folder):
    metrics, rows = run(folder)
    facts = metrics["run"]
    assert (facts["clients"], facts["clients-without-test"]) == (CLIENTS, 1)
    last = rows[-1]
    assert [last["test"], *(last[f"local-test:{n}"] for n in HEADS)] == ["0"] + [""] * 5
    assert last["global-test:local"] != ""
    held = read_clients(folder / "clients.h5")
    assert [int(row["test"]) for row in rows] == held.test.sizes.tolist()
    assert [int(row["train"]) for row in rows] == held.train.sizes.tolist()
    assert [int(row["classes"]) for row in rows] == (held.train.count > 0).sum(1).tolist()


def test_what_each_client_has_is_told(folder):
    metrics, rows = run(folder)
    names = [family.value for family in FAMILIES]
    assert metrics["run"]["families"] == dict.fromkeys(names, 2)
    with reading(folder / "heads.h5", "heads") as file:
        stack, prior = read(file["personalized"], "stack"), read(file["personalized"], "prior")
    for k, row in enumerate(rows):
        for name, weight in zip(names, stack[k], strict=True):
            assert row[f"stack-{name}"] == f"{weight:.6f}"
        assert sum(float(row[f"stack-{name}"]) > 0 for name in names) == 2
        assert row["prior"] == f"{prior[k]:.6f}"
        assert (row["local-beta"], row["alpha"]) == ("7.000000", "3.000000")


def test_clients_that_left_count_nowhere_and_have_empty_cells(tmp_path):
    """All that is told is of the others, and what a plain mean over them gives."""
    write_inputs(tmp_path)
    whole, every = run(tmp_path)
    write_inputs(tmp_path, left=(1, 4))
    metrics, rows = run(tmp_path)
    told = ("clients", "clients-without-test", "clients-left-out")
    assert [metrics["run"][name] for name in told] == [3, 0, 2]
    assert [whole["run"][name] for name in told] == [5, 1, 0]
    # Of client k the families k and k + 1, and of clients 1 and 4 none any more.
    assert metrics["run"]["families"] == {
        "fedhip": 1, "anchored": 1, "lda": 1, "local": 2, "global": 1
    }  # fmt: skip
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
    heads, every = folder / "heads.h5", alternatives(folder)
    with create_heads(heads, CLIENTS, every, {}, Origins(**actual)):
        pass
    run(folder)
    with create_heads(heads, CLIENTS, every, {}, Origins(**{**actual, source: "0" * 64})):
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
    assert told[0]["local-test:global"] == told[0]["global-test:global"]
    for name in KINDS:
        everybody = told[0][f"global-test:{name}"]
        with_prior = told[0].get(f"global-test-own-prior:{name}", everybody)  # none where it is one
        assert told[0][f"local-test:{name}"] == with_prior


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
    names = ("accuracy", "gain", "stack", "reliability")
    figures = {f"{name}.{kind}" for name in names for kind in ("png", "svg")}
    tables = {"metrics.json", "summary.json", "per_client.csv", "reliability.csv"}
    assert set(first) == tables | figures
    assert outputs() == first
    monkeypatch.setattr(heads, "BLOCK_BYTES", 4 * WIDTH * 7)
    monkeypatch.setattr("stages.evaluate.cores", lambda: 3)
    assert outputs() == first


def test_inputs_of_different_runs_are_refused_before_anything_is_written(folder, tmp_path):
    run(folder)
    before = (folder / "report" / "metrics.json").read_bytes()
    with create_heads(folder / "heads.h5", CLIENTS + 1, alternatives(folder), {}):
        pass
    with pytest.raises(InputError, match="belong to different runs: 5 clients"):
        run(folder)
    assert (folder / "report" / "metrics.json").read_bytes() == before


def test_data_without_test_samples_are_refused(tmp_path):
    write_inputs(tmp_path, testing=0)
    with pytest.raises(InputError, match="no test samples"):
        run(tmp_path)
