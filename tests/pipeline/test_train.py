"""The laws of training as cached runs: a parameter reruns what depends on it, and nothing else."""

import csv
import json
import shutil

import pytest

from pfl.artifacts.csv import csv_text
from pfl.evaluation.metrics import HEADS, TESTS
from tests.workspace import change, command, copy_project, ran

pytestmark = pytest.mark.slow

METHODS = ("cd2-pfed", "fedper")


def reports(folder):
    return {p: p.read_bytes() for p in folder.glob("r*/**/*") if p.is_file()}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Two methods, one round, trained."""
    folder = tmp_path_factory.mktemp("project")
    copy_project(folder)
    change(folder, {"compare.methods": list(METHODS)})
    command(folder, "dvc", "repro", "train")
    return folder


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("train.cd2-pfed.ratio", 0.25, {"train@cd2-pfed-0"}),
        ("train.fedper.private-layers", 2, {"train@fedper-0"}),
        ("train.fedprox.mu", 1.0, set()),
        ("rounds.weight-decay", 0.0, {"train@cd2-pfed-0", "train@fedper-0"}),
        ("compare.seeds", [0, 3], {"train@cd2-pfed-3", "train@fedper-3"}),
        ("compare.methods", ["fedper", "local"], {"train@local-0"}),
        ("extract.batch-size", 7, set()),
        ("aggregate.beta", 2.0, set()),
    ],
)
def test_a_parameter_touches_what_depends_on_it(project, key, value, expected):
    before = change(project, {key: value})
    try:
        assert set(ran(command(project, "dvc", "repro", "train", "--dry"))) == expected
    finally:
        (project / "params.yaml").write_text(before, encoding="utf-8")


def test_a_changed_method_runs_alone_and_a_changed_back_one_does_not_run(project):
    before = reports(project)
    parameters = change(project, {"train.cd2-pfed.ratio": 1.0})
    assert ran(command(project, "dvc", "repro", "train")) == ["train@cd2-pfed-0"]
    changed = {path for path, data in reports(project).items() if data != before[path]}
    assert changed
    assert all("cd2-pfed" in str(path) for path in changed)
    (project / "params.yaml").write_text(parameters, encoding="utf-8")
    assert ran(command(project, "dvc", "repro", "train")) == []
    assert reports(project) == before


def test_the_comparison_has_all_methods(project):
    head = {"local-test": {"mean": 0.5, "worst-decile": 0.1}, "upload-bytes": 7}
    head |= dict.fromkeys(test for test in TESTS if test != "local-test")
    fedhip = [f"fedhip:{name}" for name in HEADS]
    heads = dict.fromkeys(fedhip, head)
    (project / "reports" / "fedhip").mkdir()
    (project / "reports" / "fedhip" / "metrics.json").write_text(json.dumps(heads))
    trained = project / "reports/train/fedper/seed-0"
    with (trained / "per_client.csv").open() as file:
        tested = [row["test"] for row in csv.DictReader(file)]
    rows = [[n, *(["0.5"] * len(HEADS))] for n in tested]
    header = ["test", *(f"local-test:{name}" for name in HEADS)]
    (project / "reports" / "fedhip" / "per_client.csv").write_text(csv_text(header, rows))
    heads = project / "reports" / "heads" / "fedavg" / "seed-0"
    heads.mkdir(parents=True)
    for name in ("rounds.csv", "per_client.csv"):
        shutil.copy(trained / name, heads)
    told = json.loads((trained / "metrics.json").read_text())
    renamed = {"heads:fedavg": told["fedper"], "run": told["run"]}
    (heads / "metrics.json").write_text(json.dumps(renamed))
    command(project, "dvc", "repro", "--single-item", "compare")
    table = json.loads((project / "reports/comparison/comparison.json").read_text())
    assert list(table) == [
        *METHODS,
        "heads:fedavg",
        *fedhip,
    ]
    for method in METHODS:
        told = json.loads((project / f"reports/train/{method}/seed-0/metrics.json").read_text())
        local = table[method]["local-test"]
        assert local["mean"] == told[method]["local-test"]["mean"]
        assert local["low"] <= local["mean"] <= local["high"]
    assert (project / "reports/comparison/ranks.png").exists()
