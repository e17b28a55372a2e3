"""Stage ``heads``: features in, the reports of ``train`` out, equal bytes whatever the cores."""

import csv
import json

import numpy as np
import pytest
from ruamel.yaml import YAML

from pfl.data.features.features import write_features
from pfl.data.samples.clients import write_clients
from pfl.data.samples.index import TEST, TRAIN, Index, write_index
from pfl.errors import InputError
from pfl.runtime import machine
from pfl.runtime.values import Device
from pfl.training.checkpoint import load_federation
from stages.heads import heads
from tests.synthetic import held_by
from tests.workspace import ROOT

PARAMS = YAML(typ="safe", pure=True).load(ROOT / "params.yaml")
OUTPUTS = (
    "report/rounds.csv",
    "report/per_client.csv",
    "report/metrics.json",
    "report/reliability.csv",
    "out.safetensors",
)
CLIENTS, CLASSES, TRAINING, TESTING, M = 4, 3, 60, 30, 5


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Features whose first columns tell the class, index, clients and settings."""
    folder = tmp_path_factory.mktemp("inputs")
    rng = np.random.default_rng(0)
    count = TRAINING + TESTING
    label = rng.integers(CLASSES, size=count).astype(np.int32)
    rows = rng.integers(-3000, 3000, (count, M)) + 4000 * np.eye(CLASSES, M, dtype=int)[label]
    rows = rows.astype(np.int16)
    facts = {"step": 2.0**-10, "backbone": "none", "saturated": 0}
    write_features(folder / "features.h5", rows.shape, lambda i, j: rows[i:j], facts)
    split = np.repeat([TRAIN, TEST], [TRAINING, TESTING]).astype(np.uint8)
    group = np.zeros(count, np.int32)
    write_index(folder / "index.h5", Index(label, split, group, ("a", "b", "c"), ("x",)), {})
    owner = rng.integers(0, CLIENTS, count)
    write_clients(folder / "clients.h5", held_by(owner, label, TRAINING, CLIENTS, CLASSES), {})
    (folder / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    return folder


@pytest.fixture
def call(inputs, tmp_path):
    """Run the stage in this process; returns the contents of its outputs."""

    def run(head="fedavg", folder=tmp_path, **changes):
        flags = (
            PARAMS["head-rounds"]
            | PARAMS["features"]
            | {"rounds": 3, "batch-size": 8, "evaluate-every": 2}
        )
        flags = {name.replace("-", "_"): value for name, value in flags.items()}
        heads(**flags | {
            "head": head, "run_seed": 0, "settings": f"{inputs}/params.yaml:heads.{head}",
            "features": inputs / "features.h5", "index": inputs / "index.h5",
            "clients_file": inputs / "clients.h5", "report": folder / "report",
            "out": folder / "out.safetensors", "scratch": folder / "scratch",
            "device": Device.cpu,
        } | changes)  # fmt: skip
        return {name: (folder / name).read_bytes() for name in OUTPUTS}

    return run


@pytest.mark.parametrize("head", PARAMS["compare"]["heads"])
def test_every_head_of_the_parameters_runs(call, tmp_path, head):
    files = call(head)
    told = json.loads(files["report/metrics.json"])
    assert list(told) == [f"heads:{head}", "run"]
    assert (told["run"]["clients"], told["run"]["rounds"]) == (CLIENTS, 3)
    rounds = list(csv.DictReader(files["report/rounds.csv"].decode().splitlines()))
    assert [bool(row["local-test"]) for row in rounds] == [False, True, True]
    assert sum(int(row["upload-bytes"]) for row in rounds) == told[f"heads:{head}"]["upload-bytes"]
    federation, facts = load_federation(tmp_path / "out.safetensors")
    assert (federation.round, facts["head"]) == (3, head)
    assert not list((tmp_path / "scratch" / f"heads-{head}-0").glob("*/"))


def test_fedavg_uploads_its_head_each_round(call):
    told = json.loads(call("fedavg")["report/metrics.json"])
    assert told["heads:fedavg"]["upload-bytes"] == 3 * CLIENTS * 4 * CLASSES * (M + 1)


def test_what_the_features_tell_is_learned(call):
    told = json.loads(call("fedavg", rounds=20)["report/metrics.json"])
    assert told["heads:fedavg"]["local-test"]["weighted"] > 0.9


def test_cores_change_nothing(call, tmp_path, monkeypatch):
    one = call("fedavg-ft", tmp_path / "one")
    monkeypatch.setattr(machine, "cores", lambda: 1)
    assert call("fedavg-ft", tmp_path / "other") == one


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fraction": 0.0}, r"head-rounds\.fraction is 0\.0"),
        ({"settings": "params.yaml:heads.none"}, "section 'heads.none' of params.yaml"),
    ],
)
def test_what_cannot_work_is_told_and_leaves_no_output(call, tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        call(**changes)
    assert not (tmp_path / "report").exists()


def test_heads_see_the_features_through_the_view(call):
    told = json.loads(call(lift=7)["report/metrics.json"])
    assert told["heads:fedavg"]["upload-bytes"] == 3 * CLIENTS * 4 * CLASSES * (7 + 1)


def test_features_of_another_run_are_refused(call, inputs, tmp_path):
    rows = np.zeros((3, M), np.int16)
    facts = {"step": 1.0, "backbone": "none", "saturated": 0}
    write_features(tmp_path / "f.h5", rows.shape, lambda i, j: rows[i:j], facts)
    with pytest.raises(InputError, match="belong to different runs"):
        call(features=tmp_path / "f.h5")
