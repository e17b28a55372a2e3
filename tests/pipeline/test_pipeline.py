"""The laws of the cached pipeline, on the real dvc.yaml in a copy of the project without git."""

import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
import yaml

from pfl.artifacts.hdf5 import read, reading
from pfl.fedhip.server import read_server
from tests.workspace import ENVIRONMENT, ROOT, change, command, contents, copy_project, flat, ran

pytestmark = pytest.mark.slow

TRAIN, TRAIN_HEAD = "train@fedavg-0", "heads@fedavg-0"  # the two runs of these copies
HEADS = ["personalize", "evaluate", "compare", "report"]
FEATURES = ["gram", "leakage", "aggregate", TRAIN_HEAD, *HEADS]
AFTER = {
    "prepare": {"prepare", "partition", "extract", TRAIN, *FEATURES},
    "partition": {"partition", TRAIN, *FEATURES},
    "extract": {"extract", *FEATURES},
    "features": {*FEATURES},
    "aggregate": {"aggregate", *HEADS},
    "personalize": {*HEADS},
    "rounds": {TRAIN, "compare", "report"},
    "head-rounds": {TRAIN_HEAD, "compare", "report"},
}
# Where the first stage to run is not the section's name.
FIRST = {
    "features": "gram",
    "rounds": TRAIN,
    "head-rounds": TRAIN_HEAD,
    "heads": TRAIN_HEAD,
    "compare.methods": "train@local-0",
    "compare.heads": "heads@local-0",
    "compare.seeds": "train@fedavg-1",
}
OTHER = {
    "prepare.dataset": "mnist",
    "prepare.path": "data/weights",
    "prepare.download": True,
    "prepare.test-fraction": 0.3,
    "prepare.seed": 1,
    "prepare.differ": "labels",
    "prepare.strength": 0.5,
    "prepare.sites": 3,
    "prepare.users": 2,
    "prepare.test-images": "shared",
    "prepare.missing-images": "skip",
    "partition.scheme": "iid",
    "partition.clients": 7,
    "partition.concentration": 5.0,
    "partition.classes-per-client": 3,
    "partition.min-samples": 11,
    "partition.external-group": "all",
    "partition.seed": 1,
    "extract.backbone": "tf_efficientnet_lite0",
    "extract.weights": "data/raw",
    "extract.image-size": 24,
    "extract.feature-range": 50.0,
    "extract.batch-size": 32,
    "extract.precision": "bf16",
    "extract.device": "cpu",
    "features.project": 8,
    "features.lift": 64,
    "features.norm": 1.0,
    "features.seed": 1,
    "aggregate.beta": 10.0,
    "aggregate.leave-out": [1, 3],
    "aggregate.secure": True,
    "aggregate.neighbors": 4,
    "aggregate.privacy.epsilon": 1.0,
    "aggregate.privacy.delta": 1e-6,
    "aggregate.privacy.seed": 1,
    "personalize.family": "anchored",
    "personalize.alpha": 1.0,
    "personalize.beta": 10.0,
    "personalize.rho": 100.0,
    "personalize.shrinkage": 0.1,
    "personalize.pull": 10.0,
    "personalize.prior": "none",
    "personalize.smoothing": 1.0,
    "compare.methods": ["fedavg", "local"],
    "compare.heads": ["fedavg", "local"],
    "compare.seeds": [0, 1],
    "compare.baseline": "fedhip:global",
    "rounds.network": "resnet20",
    "rounds.begin-from": "data/raw",
    "rounds.image-size": 16,
    "rounds.augment": True,
    "rounds.rounds": 2,
    "rounds.epochs": 1,
    "rounds.batch-size": 8,
    "rounds.learning-rate": 0.1,
    "rounds.learning-rate-decay": 0.9,
    "rounds.momentum": 0.5,
    "rounds.nesterov": False,
    "rounds.weight-decay": 0.0,
    "rounds.fraction": 0.5,
    "rounds.client-dropout": 0.1,
    "rounds.validation-fraction": 0.1,
    "rounds.evaluate-every": 1,
    "rounds.test": "trained",
    "rounds.precision": "bf16",
    "rounds.device": "cpu",
    "head-rounds.rounds": 2,
    "head-rounds.epochs": 2,
    "head-rounds.batch-size": 8,
    "head-rounds.learning-rate-decay": 0.9,
    "head-rounds.momentum": 0.5,
    "head-rounds.nesterov": False,
    "head-rounds.weight-decay": 0.0,
    "head-rounds.fraction": 0.5,
    "head-rounds.client-dropout": 0.1,
    "head-rounds.validation-fraction": 0.1,
    "head-rounds.evaluate-every": 1,
    "head-rounds.test": "trained",
    "head-rounds.device": "cpu",
    "heads.fedavg.method": "local",
    "heads.fedavg.hidden": 8,
    "heads.fedavg.learning-rate": 0.5,
}
# Settings of what does not run in these copies: see test_train_dvc.py and test_pretrain_dvc.py.
ELSEWHERE = {
    "public.path": "data/weights",
    "public.download": True,
    "public.test-fraction": 0.3,
    "public.seed": 1,
    "pretrain.image-size": 64,
    "pretrain.patch-size": 8,
    "pretrain.width": 64,
    "pretrain.depth": 2,
    "pretrain.heads": 2,
    "pretrain.decoder-width": 32,
    "pretrain.decoder-depth": 2,
    "pretrain.decoder-heads": 2,
    "pretrain.mask-ratio": 0.5,
    "pretrain.smallest-crop": 1.0,
    "pretrain.epochs": 2,
    "pretrain.warmup-epochs": 1.0,
    "pretrain.batch-size": 64,
    "pretrain.learning-rate": 0.01,
    "pretrain.weight-decay": 0.0,
    "pretrain.ema": 0.9,
    "pretrain.probe-every": 1,
    "pretrain.precision": "bf16",
    "pretrain.device": "cpu",
    "pretrain.threads": 2,
    "pretrain.seed": 1,
    "train.cd2-pfed.ratio": 0.25,
    "train.cd2-pfed.cross": "output",
    "train.cd2-pfed.increase": False,
    "train.cd2-pfed.average": False,
    "train.cd2-pfed.average-weight": 0.9,
    "train.cd2-pfed.average-ramp": 0.5,
    "train.cd2-pfed.average-every": "step",
    "train.cd2-pfed.distill": False,
    "train.cd2-pfed.distill-weight": 0.5,
    "train.cd2-pfed.detach": True,
    "train.fedper.private-layers": 2,
    "train.lg-fed.shared-layers": 1,
    "train.lg-fed.shared-end": "bottom",
    "train.fedavg-ft.epochs": 2,
    "train.fedavg-ft.learning-rate": 0.01,
    "train.fedrep.private-layers": 2,
    "train.fedrep.head-epochs": 2,
    "train.fedprox.mu": 0.1,
    "train.ditto.attraction": 1.0,
    "train.fedbabu.head-layers": 2,
    "train.fedbabu.epochs": 2,
    "train.fedbabu.learning-rate": 0.01,
    "train.apfl.alpha": 0.25,
    "train.apfl.adaptive": False,
    "train.pfedme.attraction": 1.0,
    "train.pfedme.inner-steps": 2,
    "train.pfedme.learning-rate": 0.1,
    "train.fedavg-prior.smoothing": 1.0,
}

# A dry run ends where a new stage's input is not there yet: tested by running, in the latter.
RUN_ELSEWHERE = {"pretraining.datasets"}


@pytest.fixture
def project(finished, tmp_path):
    """A finished copy of its own, for tests that change it."""
    return shutil.copytree(finished, tmp_path / "project", symlinks=True)


def test_nothing_runs_twice(finished):
    assert ran(command(finished, "dvc", "repro")) == []
    assert "up to date" in command(finished, "dvc", "status").stdout


def test_no_temporary_file_is_left(finished):
    assert not list(finished.rglob("*.part"))
    assert not [path for path in finished.glob(".scratch/*/*") if path.name != "lock"]


def test_every_parameter_is_known_to_these_tests():
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    known = {name for name, _ in flat(params) if not name.startswith("heads.")}
    known |= {f"heads.fedavg.{name}" for name, _ in flat(params["heads"]["fedavg"])}
    assert OTHER.keys() | ELSEWHERE.keys() | RUN_ELSEWHERE == known


@pytest.mark.parametrize("key", OTHER)
def test_each_parameter_touches_its_own_stage_first(finished, key):
    """What comes after it is found by running: the next tests."""
    section = key.split(".")[0]
    assert would_run(finished, {key: OTHER[key]})[0] == FIRST.get(key, FIRST.get(section, section))


def test_settings_of_what_does_not_run_touch_nothing(finished):
    heads = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))["heads"]
    others = {f"heads.{name}.hidden": 99 for name in heads if name != "fedavg"}
    assert would_run(finished, ELSEWHERE | others) == []


def would_run(folder, values):
    """Stages that `dvc repro` would run with other parameters."""
    before = change(folder, values)
    try:
        return ran(command(folder, "dvc", "repro", "--dry"))
    finally:
        (folder / "params.yaml").write_text(before, encoding="utf-8")


@pytest.mark.parametrize(
    ("key", "value", "report"),
    [
        ("partition.seed", 1, "fedhip"),
        ("extract.image-size", 24, "fedhip"),
        ("features.lift", 96, "fedhip"),
        ("aggregate.beta", 9.0, "fedhip"),
        ("aggregate.leave-out", [7, 2], "fedhip"),
        ("personalize.smoothing", 1.0, "fedhip"),
        ("rounds.learning-rate", 0.02, "train/fedavg/seed-0"),
        ("head-rounds.momentum", 0.2, "heads/fedavg/seed-0"),
    ],
)
def test_a_parameter_reruns_its_descendants_only(project, key, value, report):
    before = contents(project)
    parameters = change(project, {key: value})
    done = ran(command(project, "dvc", "repro"))
    assert (len(done), set(done)) == (len(set(done)), AFTER[key.split(".")[0]])
    after = contents(project)
    assert before.keys() == after.keys()
    comparison, page = "reports/comparison/comparison.csv", "reports/index.html"
    for changed in (f"reports/{report}/per_client.csv", comparison, page):
        assert before[changed] != after[changed]
    (project / "params.yaml").write_text(parameters)
    assert ran(command(project, "dvc", "repro")) == []
    assert contents(project) == before


def test_theorem_3_through_the_pipeline(project):
    """Another deal of the same samples: the server's answer is the same to the byte."""
    before = contents(project)
    change(project, {"partition.seed": 5, "partition.clients": 10})
    command(project, "dvc", "repro", "aggregate")
    after = contents(project)
    assert before["data/clients.h5"] != after["data/clients.h5"]
    assert before["data/uploads.h5"] != after["data/uploads.h5"]
    assert before["data/server.h5"] == after["data/server.h5"]
    assert before["data/features.h5"] == after["data/features.h5"]


def test_the_secure_sum_gives_the_same_bytes_so_that_nothing_follows(project):
    """No head is made again; what was sent is told anew, and the page shows the parameters."""
    before = contents(project)
    change(project, {"aggregate.secure": True})
    followers = ["aggregate", "evaluate", "compare", "report"]
    assert ran(command(project, "dvc", "repro")) == followers
    after = contents(project)
    differing = {name for name, data in after.items() if data != before[name]}
    told = {f"comparison/{name}" for name in ("comparison.csv", "comparison.json")}
    told |= {f"comparison/bytes.{kind}" for kind in ("png", "svg")}
    told |= {"upload.json", "fedhip/metrics.json", "index.html"}
    assert differing == {f"reports/{name}" for name in told}


def test_the_global_head_does_not_depend_on_the_number_of_clients(project):
    _, before = read_server(project / "data" / "server.h5")
    change(project, {"partition.scheme": "pathological", "partition.clients": 23})
    command(project, "dvc", "repro", "aggregate")
    _, after = read_server(project / "data" / "server.h5")
    np.testing.assert_array_equal(before.head, after.head)


def test_the_same_parameters_give_the_same_bytes_elsewhere(finished, tmp_path):
    folder = tmp_path / "another place"
    folder.mkdir()
    copy_project(folder)
    command(folder, "dvc", "repro")
    assert contents(folder) == contents(finished)


def test_killed_in_extract_a_rerun_ends_with_the_same_bytes(finished, tmp_path):
    """SIGKILL to DVC and its stage once some work is in scratch; then `dvc repro` again."""
    slow = {"extract.image-size": 160, "extract.batch-size": 1}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        shutil.copytree(finished, folder, symlinks=True)
        change(folder, slow)
        often(folder)
    process = subprocess.Popen(
        ["dvc", "repro", "extract"],
        cwd=killed,
        env=ENVIRONMENT,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: list(killed.glob(".scratch/extract/*/*.h5")), process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (killed / "data" / "features.h5").exists()
    done = command(killed, "dvc", "repro")
    assert "were finished before" in done.stderr
    command(whole, "dvc", "repro")
    assert contents(killed) == contents(whole)


def often(folder):
    """Let the copy's extract keep its work five times a second, not every ten seconds."""
    path = folder / "pfl" / "backbones" / "extraction" / "resume.py"
    text = path.read_text(encoding="utf-8")
    assert "BLOCK_SECONDS = 10.0" in text
    path.write_text(text.replace("BLOCK_SECONDS = 10.0", "BLOCK_SECONDS = 0.2"), encoding="utf-8")


def wait_for(condition, process, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "the stage ended before it could be killed"
        assert time.monotonic() < end, "no unfinished work appeared"
        time.sleep(0.01)


def test_a_damaged_artifact_is_named_and_repaired(project):
    path = project / "data" / "features.h5"
    good = path.read_bytes()
    path.write_bytes(good[: len(good) // 2] + b"?" + good[len(good) // 2 + 1 :])
    direct = command(project, *gram_command(project), check=False)
    assert direct.returncode == 1
    assert "data/features.h5 is corrupt" in direct.stderr
    assert "dataset 'feature' is damaged" in direct.stderr
    command(project, "dvc", "repro")
    assert path.read_bytes() == good


def gram_command(project):
    """The stage as DVC ran it, with its parameters as flags."""
    stages = yaml.safe_load((project / "dvc.lock").read_text(encoding="utf-8"))["stages"]
    return stages["gram"]["cmd"].split()


def test_the_reports_agree_with_the_artifacts(finished):
    """The head that served the global test set, applied here by hand."""
    with reading(finished / "data" / "features.h5", "features") as file:
        features = read(file, "feature") * file.attrs["step"]
    with reading(finished / "data" / "index.h5", "index") as file:
        label, split = read(file, "label"), read(file, "split")
    _, knowledge = read_server(finished / "data" / "server.h5")
    hits = (features[split == 1] @ knowledge.head).argmax(1) == label[split == 1]
    metrics = yaml.safe_load((finished / "reports/fedhip/metrics.json").read_text())
    assert metrics["fedhip:global"]["global-test"]["mean"] == pytest.approx(hits.mean(), abs=2e-3)
    told = command(finished, "dvc", "metrics", "show", "--json").stdout
    assert yaml.safe_load(told)[""]["data"]["reports/fedhip/summary.json"]["data"]["fedhip"] == {
        name: metrics[f"fedhip:{name}"]["local-test"]["mean"]
        for name in ("local", "global", "global-prior", "equation-14", "personalized")
    }
