"""Trainings are remembered by what they depend on, and by nothing else."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from experiments import tune_heads
from experiments.ladders import entry
from experiments.results import SETTINGS
from experiments.tune_heads import Trainings, content, in_rounds
from pfl.data.features.features import write_features
from pfl.data.samples.clients import write_clients
from pfl.data.samples.index import TEST, TRAIN, Index, write_index
from tests.synthetic import held_by
from tests.workspace import ROOT

CLASSES, COUNT, CUT, M = 3, 90, 60, 5
HEAD = entry("fedavg-prior", smoothing=0.1)


def write(folder, seed=0, clients=4):
    """A folder with features, index and clients."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    label = rng.integers(CLASSES, size=COUNT).astype(np.int32)
    rows = rng.integers(-3000, 3000, (COUNT, M)) + 4000 * np.eye(CLASSES, M, dtype=int)[label]
    rows = rows.astype(np.int16)
    facts = {"step": 2.0**-10, "backbone": "none", "saturated": 0}
    write_features(folder / "features.h5", rows.shape, lambda i, j: rows[i:j], facts)
    split = np.repeat([TRAIN, TEST], [CUT, COUNT - CUT]).astype(np.uint8)
    group = np.zeros(COUNT, np.int32)
    write_index(folder / "index.h5", Index(label, split, group, ("a", "b", "c"), ("x",)), {})
    owner = rng.integers(clients, size=COUNT)
    write_clients(folder / "clients.h5", held_by(owner, label, CUT, clients, CLASSES), {})
    return folder


def trainings(folder, memory, rounds=2, clients=None):
    clients = clients or folder / "clients.h5"
    data = tune_heads._read(folder, clients)
    stated = tune_heads._rounds(rounds)
    return Trainings(data, stated, memory, content(folder, clients))


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


def test_the_name_of_the_folder_is_no_part_of_the_key(tmp_path):
    first = write(tmp_path / "data")
    shutil.copytree(first, tmp_path / "elsewhere")
    one, other = (trainings(folder, tmp_path / "m") for folder in (first, tmp_path / "elsewhere"))
    assert one.key(HEAD) == other.key(HEAD)


@pytest.mark.parametrize("changed", [{"seed": 1}, {"clients": 5}])
def test_other_content_in_the_same_folder_is_another_training(tmp_path, changed):
    before = trainings(write(tmp_path / "data"), tmp_path / "m").key(HEAD)
    shutil.rmtree(tmp_path / "data")
    assert trainings(write(tmp_path / "data", **changed), tmp_path / "m").key(HEAD) != before


def test_each_file_and_each_setting_is_part_of_the_key(tmp_path):
    of = trainings(write(tmp_path / "data"), tmp_path / "m")
    keys = {of.key(HEAD), of.key(HEAD | {"learning-rate": 0.1}), of.key(HEAD | {"hidden": 64})}
    for name in of.content:
        keys.add(Trainings(of.data, of.rounds, of.memory, {**of.content, name: "0"}).key(HEAD))
    for name, value in of.rounds.items():
        rounds = {**of.rounds, name: f"other than {value}"}
        keys.add(Trainings(of.data, rounds, of.memory, of.content).key(HEAD))
    assert len(keys) == 3 + len(of.content) + len(of.rounds)


def test_what_is_remembered_is_not_trained_again(tmp_path, monkeypatch):
    folder, memory = write(tmp_path / "data"), tmp_path / "memory.json"
    first = trainings(folder, memory).measure(HEAD)
    monkeypatch.setattr(Trainings, "_validation", lambda *args: pytest.fail("trained again"))
    assert trainings(folder, memory).measure(HEAD) == first
    assert len(json.loads(memory.read_text())) == 1


def test_methods_that_differ_at_use_alone_share_their_rounds(tmp_path):
    """As if each had been played for itself."""
    folder = write(tmp_path / "data")
    heads = [entry("fedavg"), HEAD, entry("fedavg-ft", epochs=3, learning_rate=0.1)]
    together = trainings(folder, tmp_path / "together.json")
    shared = [together.measure(values) for values in heads]
    assert len(together.played) == 1
    alone = [
        trainings(folder, tmp_path / f"{k}.json").measure(values) for k, values in enumerate(heads)
    ]
    assert shared == alone
    assert in_rounds(entry("local")) == entry("local")


def test_a_training_that_diverges_or_is_refused_counts_as_0(tmp_path, capsys):
    of = trainings(write(tmp_path / "data"), tmp_path / "m", rounds=4)
    assert of.measure(entry("fedavg") | {"learning-rate": 1e30}) == 0.0
    refused = entry("pfedme", attraction=3.0, inner_steps=1, learning_rate=1.0)
    assert of.measure(refused) == 0.0
    told = capsys.readouterr().out
    assert "diverged" in told and "attraction and learning-rate multiply to 3" in told


def test_a_columns_clients_are_those_of_the_pipeline(tmp_path, monkeypatch):
    """The stage's own file, to the byte."""
    from stages.partition import partition

    folder = write(tmp_path / "data")
    column = SETTINGS["digits-0.1"].partition | {"clients": 3}
    monkeypatch.setitem(SETTINGS, "digits-0.1", type(SETTINGS["digits-0.1"])("digits", column))
    made = tune_heads._clients(folder, "digits-0.1", tmp_path)
    values = tune_heads.YAML(typ="safe").load(Path("params.yaml"))["partition"] | column
    flags = {name.replace("-", "_"): value for name, value in values.items()}
    flags["scheme"] = tune_heads.Scheme(flags["scheme"])
    theirs = tmp_path / "theirs.h5"
    partition(index=folder / "index.h5", clients_file=theirs, report=tmp_path / "report", **flags)
    assert made.read_bytes() == theirs.read_bytes()
    assert trainings(folder, tmp_path / "m", clients=made).measure(HEAD) > 0


def test_a_search_prints_entries_and_keeps_them_by_column(tmp_path, monkeypatch, capsys):
    folder = write(tmp_path / "data")
    words = ["tune_heads", str(folder), "--heads", "fedavg", "fedavg-prior", "--rounds", "1"]
    words += ["--budget", "3", "--memory", str(tmp_path / "m"), "--out", str(tmp_path / "out.json")]
    monkeypatch.setattr("sys.argv", words)
    tune_heads.main()
    found = json.loads((tmp_path / "out.json").read_text())["clients of DATA"]
    assert set(found) == {"fedavg", "fedavg-prior"}
    assert f"fedavg: {json.dumps(found['fedavg'])} # 0." in capsys.readouterr().out
