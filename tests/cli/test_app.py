import json

import pytest
from typer.testing import CliRunner

from pfl.cli.app import app
from pfl.report.measures import SYMBOLS

KINDS = ("local", "global", "global-prior", "equation-14", "personalized")
HEADS = [f"fedhip:{head}" for head in KINDS]
LOCAL_TEST = {"mean": 0.5, "weighted": 0.75, "std": 0.1, "worst-decile": None}
TESTS = {"local-test": LOCAL_TEST, "global-test": {"mean": 1.0}, "external-test": None}
RUN = {"clients": 7, "clients-without-test": 2, "clients-left-out": 3}
METRICS = {**dict.fromkeys(HEADS, TESTS), "run": RUN}
UNKNOWN = {"mean": None, "std": None}
COMPARISON = {
    "fedavg": {
        "seeds": 3,
        "local-test": {"mean": 0.7123, "std": 0.0123},
        "new-test": {"mean": 0.654, "std": 0.02},
        "upload-bytes": {"mean": 3 * 2**20, "std": 0.0},
    },
    "fedhip:local": {
        "seeds": 1,
        "local-test": {"mean": 0.5, "std": None},
        "new-test": UNKNOWN,
        "upload-bytes": UNKNOWN,
    },
}


@pytest.fixture
def report(tmp_path):
    folder = tmp_path / "fedhip"
    folder.mkdir()
    (folder / "metrics.json").write_text(json.dumps(METRICS))
    (folder / "accuracy.png").write_bytes(b"")
    return folder


@pytest.fixture
def comparison(tmp_path):
    folder = tmp_path / "comparison"
    folder.mkdir()
    (folder / "comparison.json").write_text(json.dumps(COMPARISON))
    return folder


def run(report, *words, comparison=None):
    beside = comparison or report.parent / "nothing"
    words = ["results", "--report", str(report), "--comparison", str(beside), *words]
    return CliRunner().invoke(app, words, env={"COLUMNS": "160"})


def row(done, name):
    return next(line.split() for line in done.stdout.splitlines() if line.split()[:1] == [name])


def test_external_tests_are_columns_where_a_group_takes_no_part(report, comparison):
    external = {"mean": 0.42, "mean-score": 0.61, "vote": 0.5, "weight-average": 0.5}
    heads = dict.fromkeys(HEADS, TESTS | {"external-test": external})
    (report / "metrics.json").write_text(json.dumps(METRICS | heads))
    measures = {"external-test": {"mean": 0.33, "std": None}}
    measures["external-test:client-mean"] = {"mean": 0.22, "std": None}
    rows = {name: row | measures for name, row in COMPARISON.items()}
    (comparison / "comparison.json").write_text(json.dumps(rows))
    done = run(report, comparison=comparison)
    assert row(done, "local")[-2:] == ["61.0", "42.0"]
    assert {"33.0", "22.0"} <= set(row(done, "fedavg"))
    assert "takes no part" in done.stdout


def test_results_show_every_head_and_where_the_files_are(report):
    done = run(report)
    assert done.exit_code == 0
    for words in (*SYMBOLS.values(), "75.0", "100.0", "7 clients", "–"):
        assert words in done.stdout
    assert "2 clients hold none" in " ".join(done.stdout.split())
    assert "Left out, and in no number: 3." in " ".join(done.stdout.split())
    assert "accuracy.png" in done.stdout
    assert "All methods" not in done.stdout


def test_results_compare_all_methods_where_they_were_compared(report, comparison):
    done = run(report, comparison=comparison)
    told = row(done, "fedavg")
    assert told == ["fedavg", "3", "71.2", "±", "1.2", "65.4", "±", "2.0", "3.0", "±", "0.0"]
    assert row(done, "fedhip:local") == ["fedhip:local", "1", "50.0", "–", "–"]
    assert row(done, "method") == [
        "method",
        "seeds",
        "local",
        "test",
        "new",
        "test",
        "upload,",
        "MiB",
    ]
    assert "comparison.json" in done.stdout


def test_differences_are_a_table_of_their_own(report, comparison):
    """Within 80 columns, also with the longest names."""
    told = {
        "mean": -0.123, "low": -0.25, "high": 0.005, "p": 0.01, "holm": 0.0301, "gain": 2,
        "lose": 11, "same": 3, "least": -0.4, "most": 0.2,
    }  # fmt: skip
    tests = {"local-test": {"mean": 0.5, "std": None, "low": 0.25, "high": 0.75}}
    rows = {"heads:fedavg-prior-mlp": {"seeds": 1, **tests, "difference": told}}
    rows["local"] = {"seeds": 1, **tests, "difference": None}
    (comparison / "comparison.json").write_text(json.dumps(rows))
    lines = run(report, comparison=comparison).stdout.splitlines()
    shown = lines[next(i for i, line in enumerate(lines) if "Against local" in line) :]
    first, second = (
        next(line for line in shown if line.split()[:1] == [name]).split() for name in rows
    )
    assert first[1:] == ["-12.3", "[-25.0,", "+0.5]", "0.030", "2", "11", "40.0"]
    assert second[1:] == ["–", "–", "–", "–", "–"]
    assert max(len(line.rstrip()) for line in shown if "/" not in line) <= 80


PROBABILITIES = {"nll": 0.6931, "worst-nll": 2.5, "ece": 0.125, "worst-ece": 0.25}


def test_probabilities_are_shown_where_a_terminal_has_room(report, comparison):
    local = {"local-test": LOCAL_TEST | PROBABILITIES}
    heads = dict.fromkeys(HEADS, TESTS | local)
    (report / "metrics.json").write_text(json.dumps(METRICS | heads))
    told = {f"local-test:{name}": {"mean": x, "std": 0.01} for name, x in PROBABILITIES.items()}
    narrow = {name: {"seeds": 1, **told} for name in COMPARISON}
    (comparison / "comparison.json").write_text(json.dumps(narrow))
    done = run(report, comparison=comparison)
    assert row(done, "local")[-3:] == ["100.0", "0.693", "12.5"]  # the worst have no room
    assert {"0.693", "2.500", "12.5", "25.0"} <= set(row(done, "fedavg"))
    for name, found in (("fedavg", ["0.693", "12.5"]), ("f" * 50, [])):
        wide = {name: {**told, **COMPARISON["fedavg"]}}
        (comparison / "comparison.json").write_text(json.dumps(wide))
        done = run(report, comparison=comparison)
        assert [value for value in ("0.693", "2.500", "12.5") if value in row(done, name)] == found
        assert row(done, name)[2:5] == ["71.2", "±", "1.2"]


def test_results_as_json_are_the_metrics(report, comparison):
    assert json.loads(run(report, "--json").stdout) == METRICS
    both = json.loads(run(report, "--json", comparison=comparison).stdout)
    assert both == {**METRICS, "comparison": COMPARISON}


def test_without_results_it_says_what_makes_them(tmp_path):
    done = run(tmp_path / "none")
    assert done.exit_code == 1
    assert "dvc repro" in done.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "damaged"),
        ("[]", "does not hold values by name"),
        ("{}", "has no 'fedhip:local'"),
        (
            '{"fedhip:local": {"local-test": {"mean": "x"}}}',
            "'fedhip:local.local-test.mean' is no number",
        ),
    ],
)
def test_a_malformed_report_is_told_in_a_sentence(report, text, message):
    (report / "metrics.json").write_text(text)
    done = run(report)
    assert done.exit_code == 1
    assert message in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize("text", ["{", '{"fedavg": 3}', '{"fedavg": {"seeds": 1, "new-test": {}}}'])
def test_a_malformed_comparison_is_told_in_a_sentence(report, comparison, text):
    (comparison / "comparison.json").write_text(text)
    done = run(report, comparison=comparison)
    assert done.exit_code == 1
    assert "comparison.json is" in done.output
