"""`pfl check` over a whole project: all that is wrong at once, by key, line and remedy."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from pfl.cli.parameters import across
from pfl.cli.parameters.check import check_parameters
from pfl.cli.parameters.space import packed_bytes
from tests.cli.parameters.cases import pipeline
from tests.tiny import pfl, told
from tests.workspace import ENVIRONMENT, ROOT


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The parameters and the pipeline, with the folders that they name."""
    monkeypatch.setattr("pfl.cli.parameters.check.read_pipeline", lambda path: pipeline())
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("raw", "weights"):
        (tmp_path / "data" / name).mkdir(parents=True)
    return tmp_path


def write(project, *changes):
    """Replace texts of params.yaml, each of which is there once at least."""
    path = project / "params.yaml"
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path.write_text(text, encoding="utf-8")


def sentences(project, *changes):
    write(project, *changes)
    return {one.key: one.sentence for one in check_parameters(project).findings}


def test_the_parameters_as_they_come_are_right(project):
    done = pfl("check", "--project", project)
    assert done.exit_code == 0
    assert told(done).endswith(
        "is right: digits over 10 clients (dirichlet); 6 methods and 4 heads to train, once for "
        "each of 1 seed(s)."
    )
    assert done.output.count("\n") == 1


def test_all_that_is_wrong_is_told_at_once_in_the_order_of_the_lines(project):
    write(
        project,
        ("download: false", "download: yes"),
        ("external-group: ''", "external-group:"),
        ("  scheme: ", "  schema: "),
        ("fedprox:", "fedprx:"),
        ("extract:\n", "extrct:\n"),
    )
    done = pfl("check", "--project", project)
    assert done.exit_code == 1
    lines = [line for line in done.output.splitlines() if line]
    assert all(line.startswith("Error: ") for line in lines)
    as_json = json.loads(pfl("check", "--project", project, "--json").stdout)
    assert as_json["verdict"] == "wrong"
    findings = as_json["findings"]
    assert [one["key"] for one in findings] == [
        "extract", "prepare.download", "partition.schema", "partition.scheme",
        "partition.external-group", "extrct", "train.fedprx",
    ]  # fmt: skip
    told_lines = [one["line"] for one in findings]
    assert told_lines[0] is None and told_lines[1:] == sorted(told_lines[1:])
    for line, one in zip(lines, findings, strict=True):
        assert one["sentence"] in line
    nearest = {one["key"]: one["sentence"] for one in findings}
    assert "write scheme, the nearest" in nearest["partition.schema"]
    assert "write extract, the nearest" in nearest["extrct"]
    assert "write fedprox, the nearest" in nearest["train.fedprx"]
    assert "is missing: it must be one of iid" in nearest["partition.scheme"]


def test_of_right_parameters_json_says_what_runs(project):
    told_json = json.loads(pfl("check", "--project", project, "--json").stdout)
    assert (told_json["verdict"], told_json["findings"]) == ("right", [])
    assert told_json["runs"]["heads"] == ["fedavg", "fedavg-prior", "local", "fedavg-ft"]


def test_every_key_that_is_left_out_is_missing(project):
    path = project / "params.yaml"
    whole = path.read_text(encoding="utf-8").splitlines(keepends=True)
    removed = {
        "partition.clients": "  clients: 10",
        "aggregate.privacy.seed": "    seed: secret",
        "heads.fedavg.hidden": "    hidden: 0",
        "train.fedrep.head-epochs": "    head-epochs",
        "train.fedprox.mu": "    mu",  # the only one: its section is then blank
    }
    for key, start in removed.items():
        number = next(n for n, line in enumerate(whole) if line.startswith(start))
        path.write_text("".join(whole[:number] + whole[number + 1 :]), encoding="utf-8")
        (one,) = (one for one in check_parameters(project).findings if one.key == key)
        assert f"{key} is missing" in one.sentence


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        ([("- cd2-pfed", "- fedsgd")], "compare.methods", "does not hold: write fedprox|remove it"),
        ([("- cd2-pfed", "- fedavg")], "compare.methods", "names fedavg 2 times"),
        ([("  - 0\n", "  - 0\n  - 0\n")], "compare.seeds", "names 0 2 times"),
        ([("- fedavg-prior", "- fedavg-priors")], "compare.heads", "write fedavg-prior"),
        ([("  local-mlp:", "  local mlp:")], "heads.local mlp", "letters, digits, - and _"),
        ([("method: fedavg #", "method: fedsgd #")], "heads.fedavg.method", "must be one of"),
        ([("epsilon: none", "epsilon: 1.0")], "aggregate.privacy", "set features.norm"),
        (
            [("epsilon: none", "epsilon: 1.0"), ("norm: none", "norm: 1"), ("1.0e-5", "2.0")],
            "aggregate.privacy",
            "delta is 2",
        ),
        ([("scheme: dirichlet", "scheme: natural")], "partition.scheme", "data with groups"),
        (
            [("scheme: dirichlet", "scheme: natural"), ("differ: none", "differ: blur")],
            "partition.scheme",
            "multiple of 4",
        ),
        ([("-group: ''", "-group: Rome")], "partition.external-group", "'Rome', which is no group"),
        ([("leave-out: []", "leave-out: [10]")], "aggregate.leave-out", "names client 10"),
        (
            [("secure: false", "secure: true"), ("neighbors: auto", "neighbors: 1")],
            "aggregate.secure",
            "two neighbors or more",
        ),
        (
            [("differ: none", "differ: labels"), ("strength: 1.0", "strength: 2.0")],
            "prepare.strength",
            "share of the classes",
        ),
        ([("path: data/raw", "path: data/row")], "prepare.path", "which does not exist"),
        ([("dataset: digits", "dataset: cifar10")], "prepare.path", "download: true"),
        ([("dataset: digits", "dataset: npz")], "prepare.path", "exactly one .npz"),
        ([("datasets: []", "datasets: [cifar100]")], "public.path", "public.download"),
        ([("weights: data/weights", "weights: w.pth")], "extract.weights", "extract.weights to a"),
        (
            [("data/weights", "data/pretrained/svhn.safetensors")],
            "extract.weights",
            "does not exist",
        ),
        (
            [("project: 0", "project: 65536"), ("clients: 10", "clients: 1000000")],
            "partition.clients",
            "GiB at least",
        ),
        (
            [("attraction: 15.0", "attraction: 1500.0")],
            "train.pfedme",
            "a product of at most 1",
        ),
    ],
)
def test_what_does_not_go_together_is_told(project, changes, key, message):
    found = sentences(project, *changes)
    assert list(found) == [key]
    assert re.search(message, found[key])


def test_weights_that_the_pipeline_makes_need_not_be_there(project):
    changes = [("data/weights", "data/pretrained/unlabelled.safetensors"),
               ("datasets: []", "datasets: [unlabelled]")]  # fmt: skip
    assert sentences(project, *changes) == {}


def test_a_rule_waits_for_what_it_needs(project):
    """No second sentence on what is wrong by itself, and no failure of the rule."""
    changes = [("dataset: digits", "dataset: [x]"), ("scheme: dirichlet", "scheme: natural"),
               ("project: 0", "project: many"), ("clients: 10", "clients: ~")]  # fmt: skip
    assert set(sentences(project, *changes)) == {
        "prepare.dataset", "features.project", "partition.clients",
    }  # fmt: skip


def test_every_rule_is_of_keys_that_there_are():
    document = {**dict.fromkeys(("train", "heads", "pretraining")), **pipeline().sections}
    for rule in across.RULES:
        for key in (rule.key, *rule.needs):
            assert key.partition(".")[0] in document


def test_a_gram_matrix_takes_its_triangle():
    assert packed_bytes(3) == 4 * 6


@pytest.mark.parametrize("text", [None, "stages:\n", "a: [1\n", "stages: {a: 3}\n"])
def test_without_a_pipeline_it_says_where_to_run(tmp_path, text):
    shutil.copy(ROOT / "params.yaml", tmp_path)
    if text is not None:
        (tmp_path / "dvc.yaml").write_text(text)
    done = pfl("check", "--project", tmp_path)
    assert done.exit_code == 1
    assert "run this in the project's folder" in told(done)


def test_it_loads_neither_networks_nor_figures():
    """So that it takes less than a second, and may run before everything else."""
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from pfl.cli.parameters.check import check_parameters\n"
        "assert not check_parameters(Path()).findings\n"
        "slow = {'torch', 'torchvision', 'timm', 'matplotlib', 'sklearn', 'dvc'}\n"
        "sys.exit(str(slow & sys.modules.keys()) if slow & sys.modules.keys() else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
