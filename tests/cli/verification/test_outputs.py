"""Every output of dvc.yaml is checked by `pfl verify` and known to `pfl inspect`."""

import json
import re
import shutil

import pytest
import yaml

from pfl.artifacts.project import OUTPUTS, STAGES, Project, made_by
from pfl.artifacts.tensors import save_tensors
from pfl.cli.verification.outcome import run
from pfl.cli.verification.plan import plan
from pfl.cli.verification.state import DvcState
from tests.tiny import flip, pfl
from tests.workspace import ROOT

ITEMS = {"dataset": "cifar100", "method": "cd2-pfed", "head": "fedavg-ft", "seed": "3"}


def outputs():
    """Path and stage of every output, with an item of each matrix."""
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    for name, stage in stages.items():
        items = "-".join(ITEMS[key] for key in stage.get("matrix", {}))
        for out in stage["outs"]:
            path = re.sub(r"\$\{item\.(\w+)\}", lambda found: ITEMS[found[1]], out)
            yield path, f"{name}@{items}" if items else name


OUTS = dict(outputs())


def make(project, out, tiny):
    """An output with a little in it."""
    path = project / out
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".h5":
        shutil.copy(tiny / "data" / path.name, path)
    elif path.suffix == ".safetensors":
        name = "head" if "heads" in path.parts else "method"
        facts = {name: path.parent.name, "training": {"seed": 3}, "last": []}
        save_tensors(path, {}, facts | {"architecture": {}} if "data" in path.parts else facts)
    elif path.suffix:
        path.write_text("<html>")
    else:
        path.mkdir()
        (path / "metrics.json").write_text("{}")


@pytest.fixture(scope="module")
def whole(tiny, tmp_path_factory):
    """A project with every output."""
    folder = tmp_path_factory.mktemp("whole")
    for out in OUTS:
        make(folder, out, tiny)
    return folder


def outcomes(project, name):
    """What comes of the checks of this name, by output."""
    checks = [check for check in plan(Project(project)) if check.name == name]
    return {one.check.artifact: one for one in run(checks, quick=True, everything=True)}


def test_the_table_of_outputs_is_that_of_the_pipeline():
    assert {out: made_by(ROOT / out) for out in OUTS} == OUTS
    assert len(OUTS) == len(OUTPUTS)
    assert made_by(ROOT / "runs" / "notes.txt") is None


@pytest.mark.parametrize("out", OUTS)
def test_what_dvc_says_of_an_output_is_told(whole, monkeypatch, out):
    monkeypatch.setattr(DvcState, "_answer", {OUTS[out]: [{"changed outs": {out: "modified"}}]})
    found = outcomes(whole, "DVC")
    assert set(found) == set(OUTS)
    assert [name for name, one in found.items() if one.result == "wrong"] == [out]
    assert f"`dvc repro {OUTS[out]}`" in found[out].detail


@pytest.mark.parametrize("out", OUTS)
def test_an_output_that_dvc_misses_is_told(tmp_path, monkeypatch, out):
    monkeypatch.setattr(DvcState, "_answer", {OUTS[out]: [{"changed outs": {out: "deleted"}}]})
    assert outcomes(tmp_path, "DVC")[out].result == "wrong"


@pytest.mark.parametrize("out", [out for out in OUTS if out.endswith((".h5", ".safetensors"))])
def test_a_changed_byte_is_found_without_dvc(whole, out):
    assert outcomes(whole, "checksum")[out].result == "ok"
    before = (whole / out).read_bytes()
    flip(whole / out)
    try:
        found = outcomes(whole, "checksum")
    finally:
        (whole / out).write_bytes(before)
    assert [name for name, one in found.items() if one.result == "wrong"] == [out]


def test_what_was_never_made_needs_no_check(tmp_path):
    always = {f"data/{schema}.h5" for schema in STAGES} | {"reports/fedhip"}
    assert {check.artifact for check in plan(Project(tmp_path))} == always


@pytest.mark.parametrize("out", OUTS)
def test_every_output_says_what_made_it(whole, out):
    done = pfl("inspect", whole / out, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["made-by"] == OUTS[out]
    assert found["what"]
