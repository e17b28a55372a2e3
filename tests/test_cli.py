import json

import pytest
from typer.testing import CliRunner

from pfl.cli import app

METRICS = {
    head: {"mean": 0.5, "weighted": 0.75, "std": 0.1, "worst-decile": None, "global-test": 1.0}
    for head in ("local", "global", "personalized")
} | {"clients": 7, "clients-without-test": 2}


@pytest.fixture
def report(tmp_path):
    (tmp_path / "metrics.json").write_text(json.dumps(METRICS))
    (tmp_path / "accuracy.png").write_bytes(b"")
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "120"})


def test_results_show_every_head_and_where_the_files_are(report):
    done = run("results", "--report", str(report))
    assert done.exit_code == 0
    for words in ("local L_k", "global G", "personalized P_k", "75.0", "100.0", "7 clients", "–"):
        assert words in done.stdout
    assert "2 clients hold no test samples" in done.stdout
    assert "accuracy.png" in done.stdout


def test_results_as_json_are_the_metrics(report):
    done = run("results", "--report", str(report), "--json")
    assert json.loads(done.stdout) == METRICS


def test_without_results_it_says_what_makes_them(tmp_path):
    done = run("results", "--report", str(tmp_path / "none"))
    assert done.exit_code == 1
    assert "make repro" in done.output
