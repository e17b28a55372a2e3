import json
import shutil
import subprocess

import pytest

from pfl.cli import display
from pfl.cli.runs.differences import differences, parameters
from pfl.errors import InputError
from pfl.evaluation.metrics import HEADS
from tests.tiny import pfl, told
from tests.workspace import change, command

TESTS = {
    "local-test": {"mean": 0.5, "weighted": 0.5, "std": 0.1, "worst-decile": 0.2},
    "global-test": {"mean": 0.4},
    "new-test": {"mean-score": 0.6},
    "external-test": None,
}


def run(personalized, clients, comparison=None, **files):
    """A reader of a run with these accuracies of the personalized heads."""
    metrics = dict.fromkeys((f"fedhip:{head}" for head in HEADS), TESTS)
    local = TESTS["local-test"] | {"mean": personalized}
    metrics["fedhip:personalized"] = TESTS | {"local-test": local}
    lines = [f"{k},{value}" for k, value in clients.items()]
    held = {
        "params.yaml": "aggregate: {beta: 1.0}\ncompare: {methods: [a, b]}",
        "reports/fedhip/metrics.json": json.dumps(metrics),
        "reports/fedhip/per_client.csv": "client,local-test:personalized\n" + "\n".join(lines),
    } | {name.replace("__", "."): text for name, text in files.items()}
    if comparison is not None:
        held["reports/comparison/comparison.json"] = json.dumps(comparison)

    def read(path):
        if path not in held:
            raise InputError(f"{path} is missing.")
        return held[path]

    return read


def test_accuracies_stand_side_by_side_and_clients_are_ordered_by_their_change():
    first = run(0.5, {0: 0.5, 1: 0.5, 2: 0.5, 3: "", 4: 0.9})
    second = run(0.75, {0: 0.6, 1: 0.9, 2: 0.1, 3: 0.5, 4: 0.9})
    found = differences(first, second, 5)
    rows = {(row["model"], row["measure"]): row["difference"] for row in found["accuracy"]}
    assert rows["fedhip:personalized", "local-test"] == 0.25
    assert {rows["fedhip:local", name] for name in ("local-test", "new-test")} == {0.0}
    assert rows["fedhip:local", "local-test:weighted"] == 0.0
    assert not any("external" in measure for _, measure in rows)
    assert [row["client"] for row in found["gained-most"]] == [1, 0]
    assert [row["client"] for row in found["lost-most"]] == [2]
    assert found["clients"] == {"compared": 4, "gained": 2, "lost": 1, "unchanged": 1}
    assert differences(first, second, 1)["gained-most"][0]["client"] == 1


def test_likelihoods_differ_by_nats_and_errors_by_points():
    def with_probabilities(nll, ece):
        comparison = {
            "a": {"local-test:nll": {"mean": nll, "std": None}, "local-test:ece": {"mean": ece}}
        }
        return run(0.5, {0: 0.5}, comparison)

    found = differences(with_probabilities(0.75, 0.5), with_probabilities(0.5, 0.75), 5)
    rows = {(row["model"], row["measure"]): row for row in found["accuracy"]}
    nll, ece = (rows["a", f"local-test:{name}"] for name in ("nll", "ece"))
    assert [display.text(nll[key]) for key in ("first", "second", "difference")] == [
        "0.75",
        "0.5",
        "-0.250",
    ]
    assert [display.text(ece[key]) for key in ("first", "second", "difference")] == [
        "50.0 %", "75.0 %", "+25.0",
    ]  # fmt: skip


def test_the_other_way_round_every_difference_has_the_other_sign():
    first, second = run(0.5, {0: 0.5, 1: 0.25}), run(0.75, {0: 0.25, 1: 0.75})
    there, back = differences(first, second, 5), differences(second, first, 5)
    for one, other in zip(there["accuracy"], back["accuracy"], strict=True):
        assert one["difference"] == -other["difference"]
    assert there["gained-most"][0]["client"] == back["lost-most"][0]["client"]


def test_trained_methods_of_both_runs_are_compared():
    method = {"local-test": {"mean": 0.5}, "global-test": {"mean": None}}
    more = method | {"new-test": {"mean": 0.5}}
    first = run(0.5, {}, {"fedavg": method, "local": method})
    second = run(0.5, {}, {"fedavg": more, "fedhip:local": method})
    rows = [row for row in differences(first, second, 5)["accuracy"] if row["model"] == "fedavg"]
    assert [(row["measure"], row["difference"]) for row in rows] == [
        ("local-test", 0.0), ("new-test", None),
    ]  # fmt: skip


def test_parameters_are_those_that_made_the_results():
    """params.yaml may have been changed since; dvc.lock has what was used."""
    lock = "stages: {a: {params: {params.yaml: {aggregate: {beta: 2.0}}}}, b: {cmd: x}}"
    assert parameters(run(0.5, {}, dvc__lock=lock)) == {"aggregate.beta": 2.0}
    assert parameters(run(0.5, {})) == {"aggregate.beta": 1.0, "compare.methods": ["a", "b"]}
    found = differences(run(0.5, {}), run(0.5, {}, dvc__lock=lock), 5)["parameters"]
    assert found == [
        {"parameter": "aggregate.beta", "first": 1.0, "second": 2.0},
        {"parameter": "compare.methods", "first": '["a", "b"]', "second": None},
    ]


@pytest.mark.parametrize(
    ("path", "text"),
    [("params__yaml", "]"), ("dvc__lock", "stages: 3"), ("params__yaml", "3")],
)
def test_parameters_of_another_form_are_told_in_a_sentence(path, text):
    with pytest.raises(InputError, match="is of another form"):
        parameters(run(0.5, {}, **{path: text}))


def test_reports_of_another_form_are_told_in_a_sentence(tiny, tmp_path):
    for number, (name, text, message) in enumerate(
        (
            ("per_client.csv", "client\n1\n", "is of another form"),
            ("metrics.json", "{", "is damaged"),
            ("metrics.json", "[]", "holds no values by name"),
        )
    ):
        project = shutil.copytree(tiny, tmp_path / str(number))
        (project / "reports" / "fedhip" / name).write_text(text)
        done = pfl("compare", tiny, project)
        assert done.exit_code == 1
        assert message in told(done)


def test_a_folder_is_compared_with_the_workspace(tiny):
    done = pfl("compare", tiny, "workspace", "--project", tiny, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["parameters"] == []
    assert found["clients"]["unchanged"] == found["clients"]["compared"] == 10


def test_a_name_that_is_no_run_is_told_in_a_sentence(tiny, tmp_path):
    done = pfl("compare", "v1", "--project", tiny)
    assert done.exit_code == 1
    assert "'v1' is neither 'workspace'" in told(done)
    (tmp_path / "params.yaml").write_text("{}")
    done = pfl("compare", tmp_path, "--project", tiny)
    assert done.exit_code == 1
    assert "`dvc repro`" in told(done)


@pytest.mark.slow
def test_revisions_and_experiments_are_compared(finished, tmp_path):
    """Two commits and an experiment, from git and DVC's cache."""
    project = shutil.copytree(finished, tmp_path / "project", symlinks=True)
    (project / ".dvc" / "config.local").unlink()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], cwd=project, check=True)
    commit(project, git)
    change(project, {"personalize.family": "local"})
    command(project, "dvc", "repro", "evaluate")
    commit(project, git)
    change(project, {"personalize.family": "global"})
    command(project, "dvc", "repro", "evaluate")
    command(project, "dvc", "exp", "save", "-n", "shared-head")
    for first, second, families in (
        ("HEAD~1", "HEAD", ("auto", "local")),
        ("HEAD", "shared-head", ("local", "global")),
        ("HEAD", "workspace", ("local", "global")),
    ):
        done = pfl("compare", first, second, "--project", project, "--json")
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        assert found["parameters"] == [
            {"parameter": "personalize.family", "first": families[0], "second": families[1]}
        ]
        rows = {(r["model"], r["measure"]): r for r in found["accuracy"]}
        assert rows["fedhip:local", "local-test"]["difference"] == 0
        assert rows["fedhip:personalized", "local-test"]["difference"] != 0
        assert rows["fedavg", "global-test"]["difference"] == 0
    done = pfl("compare", "nothing", "--project", project)
    assert "`dvc exp show`" in told(done)
    shutil.rmtree(project / ".dvc" / "cache")
    done = pfl("compare", "HEAD~1", "--project", project)
    assert done.exit_code == 1
    assert "DVC's cache keeps it no more" in told(done)


def commit(project, git):
    subprocess.run([*git, "add", "-A"], cwd=project, check=True)
    subprocess.run([*git, "commit", "-q", "-m", "a run"], cwd=project, check=True)
