"""Stage ``train``: equal bytes whatever happens on the way, and sentences for what cannot work."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML

from pfl.data.images.images import PixelArray, write_images
from pfl.data.samples.clients import write_clients
from pfl.data.samples.index import TEST, TRAIN, Index, write_index
from pfl.errors import InputError
from pfl.runtime import machine
from pfl.runtime.scratch import file_sha256
from pfl.runtime.values import Device, Precision
from pfl.training.checkpoint import load_federation
from stages.train import train
from tests.synthetic import held_by
from tests.workspace import ROOT

PARAMS = YAML(typ="safe", pure=True).load(ROOT / "params.yaml")
TINY = {"rounds": 3, "batch-size": 8, "device": "cpu", "validation-fraction": 0.2}
OUTPUTS = ("rounds.csv", "per_client.csv", "metrics.json", "reliability.csv", "reliability.png")
CLIENTS, CLASSES, TRAINING, TESTING = 4, 3, 60, 30


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Images, index, clients and settings of a tiny problem with two groups."""
    folder = tmp_path_factory.mktemp("inputs")
    rng = np.random.default_rng(0)
    count = TRAINING + TESTING
    label = rng.integers(CLASSES, size=count).astype(np.int32)
    pixels = rng.integers(0, 150, (count, 8, 8, 1)) + 50 * label[:, None, None, None]
    write_images(folder / "images.h5", PixelArray(pixels.astype(np.uint8)), {})
    split = np.repeat([TRAIN, TEST], [TRAINING, TESTING]).astype(np.uint8)
    owner = rng.integers(0, CLIENTS, count)
    group = (owner == CLIENTS - 1).astype(np.int32)  # the last client has a group of its own
    write_index(folder / "index.h5", Index(label, split, group, ("a", "b", "c"), ("x", "y")), {})
    write_clients(folder / "clients.h5", held_by(owner, label, TRAINING, CLIENTS, CLASSES), {})
    (folder / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    return folder


def places(inputs, folder, method):
    return {
        "method": method,
        "seed": 0,
        "settings": f"{inputs}/params.yaml:train.{method}",
        "images": inputs / "images.h5",
        "index": inputs / "index.h5",
        "clients-file": inputs / "clients.h5",
        "report": folder / "report",
        "out": folder / "out.safetensors",
        "scratch": folder / "scratch",
    }


@pytest.fixture
def call(inputs, tmp_path):
    """Run the stage in this process; returns the contents of its outputs."""

    def run(method="fedavg", folder=tmp_path, **changes):
        flags = PARAMS["rounds"] | TINY | places(inputs, folder, method)
        flags = {name.replace("-", "_"): value for name, value in flags.items()} | changes
        flags["precision"] = Precision(flags["precision"])
        flags["device"] = Device(flags["device"])
        flags["begin_from"] = Path(flags["begin_from"])
        train(**flags)
        return contents(folder)

    return run


def contents(folder):
    paths = [*(folder / "report" / name for name in OUTPUTS), folder / "out.safetensors"]
    return {path.name: path.read_bytes() for path in paths}


def line(inputs, folder, method, **changes):
    """The command that DVC runs."""
    flags = []
    for name, value in {
        **PARAMS["rounds"], **TINY, **places(inputs, folder, method), **changes
    }.items():  # fmt: skip
        if isinstance(value, bool):
            flags.append(f"--{name}" if value else f"--no-{name}")
        else:
            flags.append(f"--{name}={value}")
    return [sys.executable, "-m", "stages.train", *flags]


@pytest.mark.parametrize("method", PARAMS["compare"]["methods"])
def test_every_method_of_the_parameters_runs(call, tmp_path, method):
    files = call(method)
    told = json.loads(files["metrics.json"])
    assert list(told) == [method, "run"]
    tests, facts = told.values()
    assert (facts["clients"], facts["rounds"]) == (CLIENTS, 3)
    assert facts["settings"] == PARAMS["train"][method]
    rounds = list(csv.DictReader(files["rounds.csv"].decode().splitlines()))
    assert [row["round"] for row in rounds] == ["1", "2", "3"]
    assert float(rounds[-1]["local-test"]) == pytest.approx(tests["local-test"]["mean"], abs=1e-6)
    assert sum(int(row["upload-bytes"]) for row in rounds) == tests["upload-bytes"]
    federation, facts = load_federation(tmp_path / "out.safetensors")
    assert (federation.round, facts["method"]) == (3, method)
    clients = list(csv.DictReader(files["per_client.csv"].decode().splitlines()))
    sizes = [int(row[name]) for row in clients for name in ("train", "validation")]
    assert sum(sizes) == TRAINING
    assert not list((tmp_path / "scratch" / f"train-{method}-0").glob("*/"))


def test_cores_change_nothing(call, tmp_path, monkeypatch):
    one = call("cd2-pfed", tmp_path / "one")
    monkeypatch.setattr(machine, "cores", lambda: 1)
    assert call("cd2-pfed", tmp_path / "other") == one


def test_images_may_be_augmented_and_resized(call):
    plain, changed = call("local"), call("local", augment=True, image_size="12")
    assert plain["out.safetensors"] != changed["out.safetensors"]


def test_a_run_begins_from_the_file_of_another(call, tmp_path):
    """After one round of FedAvg, with one more, the model is not that of one round alone."""
    call("fedavg", tmp_path / "first", rounds=1)
    file = tmp_path / "first" / "out.safetensors"
    fresh = call("local", tmp_path / "fresh", rounds=1)
    begun = call("local", tmp_path / "begun", rounds=1, begin_from=file)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "any.safetensors").write_bytes(file.read_bytes())
    again = call("local", tmp_path / "again", rounds=1, begin_from=tmp_path / "folder")
    assert begun["out.safetensors"] != fresh["out.safetensors"]
    assert again == begun
    told = [load_federation(tmp_path / name / "out.safetensors")[1] for name in ("fresh", "begun")]
    assert [facts["begin-from"] for facts in told] == [None, file_sha256(file)]


@pytest.mark.parametrize("precision", list(Precision))
def test_equal_runs_give_equal_bytes(call, tmp_path, precision):
    first = call("fedper", tmp_path / "one", precision=precision)
    assert call("fedper", tmp_path / "two", precision=precision) == first


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fraction": 0.0}, r"rounds\.fraction is 0\.0"),
        ({"client_dropout": 1.0}, r"rounds\.client-dropout is 1\.0"),
        ({"validation_fraction": 1.0}, r"rounds\.validation-fraction is 1\.0"),
        ({"network": "lenet6"}, "lenet5"),
        ({"learning_rate": 1e30}, "diverged in round"),
        ({"settings": "params.yaml:train.none"}, "section 'train.none' of params.yaml"),
        ({"method": "fedsgd"}, "section 'train.fedsgd' of .*params.yaml"),
    ],
)
def test_what_cannot_work_is_told_and_leaves_no_output(call, tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        call(**changes)
    assert not (tmp_path / "report").exists()
    assert not (tmp_path / "out.safetensors").exists()


def test_a_size_is_a_number_or_auto(call):
    with pytest.raises(InputError, match=r"rounds\.image-size is 'large': it must be auto"):
        call(image_size="large")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal")
def test_killed_runs_lose_a_round_at_most_and_end_the_same(inputs, tmp_path):
    method, changes = "cd2-pfed", {"rounds": 24, "fraction": 0.6, "client-dropout": 0.1}
    subprocess.run(line(inputs, tmp_path / "whole", method, **changes), cwd=ROOT, check=True)
    folder = tmp_path / "killed"
    states = f"scratch/train-{method}-0/*/state.safetensors"
    reached = 0
    for _ in range(2):
        process = subprocess.Popen(line(inputs, folder, method, **changes), cwd=ROOT)
        wait_for(lambda seen=reached: rounds_in(folder, states) > seen + 3)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert rounds_in(folder, states) >= reached
        reached = rounds_in(folder, states)
    subprocess.run(line(inputs, folder, method, **changes), cwd=ROOT, check=True)
    assert contents(folder) == contents(tmp_path / "whole")


def rounds_in(folder, pattern):
    """Finished rounds on disk."""
    return max((load_federation(path)[0].round for path in folder.glob(pattern)), default=0)


def wait_for(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
