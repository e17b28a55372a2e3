"""Methods side by side: plain means and deviations of what the runs measured."""

import csv
import io
import json
import statistics

import numpy as np
import pytest

from pfl.errors import InputError
from pfl.evaluation.metrics import HEADS
from pfl.evaluation.reliability.bins import Bins, bins_csv
from pfl.evaluation.reliability.sums import reliability
from pfl.report import comparison_figures
from pfl.report.comparison import (
    comparison_csv,
    comparison_json,
    gather,
    rounds_of,
    run_folders,
    summary_json,
)
from pfl.report.comparison_figures import draw_bytes, draw_comparison, draw_rounds
from pfl.report.local_test import read_outcomes
from pfl.report.reliability import gather_bins
from pfl.report.statistics.summary import summarize
from tests.evaluation.reliability.test_sums import CLIENTS, drawn

ENSEMBLE = ("mean-probability", "mean-log-probability", "vote", "weight-average")
OUTSIDE = (*ENSEMBLE, "mean")


def run_metrics(method, value, external=False, validation=None):
    tests = {
        "local-test": {"mean": value, "weighted": value, "std": 0.1, "worst-decile": value / 2},
        "global-test": {"mean": value / 4},
        "global-test-own-prior": None,
        "new-test": {kind: value + i / 100 for i, kind in enumerate(ENSEMBLE)},
        "external-test": dict.fromkeys(OUTSIDE, value / 3) if external else None,
        "validation": validation and {"mean": validation},
        "upload-bytes": 1000,
    }
    return {method: tests, "run": {"clients": 3}}


TESTED = (10, 20, 10, 0)


def clients_of(accuracy):
    """A per_client.csv: clients around an accuracy, one without test samples."""
    lines = [",".join(["client", "test", *accuracy])]
    for client, (tested, off) in enumerate(zip(TESTED, (-0.1, 0.0, 0.1, 0), strict=True)):
        cells = [f"{value + off:.6f}" if tested else "" for value in accuracy.values()]
        lines.append(",".join([str(client), str(tested), *cells]))
    return "\n".join(lines) + "\n"


@pytest.fixture
def reports(tmp_path):
    """Two methods with three seeds, and FedHiP."""
    values = {"fedavg": (0.5, 0.6, 0.4), "local": (0.7, 0.7, None)}
    for method, numbers in values.items():
        for seed, value in enumerate(numbers):
            folder = tmp_path / "train" / method / f"seed-{seed}"
            folder.mkdir(parents=True)
            found = run_metrics(method, value or 0.7, external=method == "fedavg", validation=value)
            (folder / "metrics.json").write_text(json.dumps(found))
            (folder / "rounds.csv").write_text(f"round,local-test\n1,\n2,{value or 0.7}\n")
            (folder / "per_client.csv").write_text(clients_of({"local-test": value or 0.7}))
    (tmp_path / "fedhip").mkdir()
    local = {"mean": 0.9, "weighted": 0.9, "std": 0.1, "worst-decile": 0.8}
    together = {"mean-score": 0.8, "vote": 0.7, "weight-average": 0.6}
    head = {"local-test": local, "global-test": None, "new-test": together}
    head |= {"global-test-own-prior": {"mean": 0.3}}
    head |= {"external-test": None, "validation": None, "upload-bytes": 5000}
    heads = dict.fromkeys((f"fedhip:{name}" for name in HEADS), head)
    (tmp_path / "fedhip" / "metrics.json").write_text(json.dumps(heads))
    found = {f"local-test:{name}": 0.9 for name in HEADS}
    (tmp_path / "fedhip" / "per_client.csv").write_text(clients_of(found))
    return tmp_path


def compared(reports, methods=("fedavg", "local")):
    return gathered(run_folders(reports / "train", methods, (0, 1, 2)), reports / "fedhip")


def gathered(folders, fedhip, baseline="fedhip:personalized"):
    return gather(folders, fedhip, summarize(read_outcomes(folders, fedhip), baseline))


def test_the_local_test_is_read_as_counts(reports):
    folders = run_folders(reports / "train", ("fedavg",), (0, 1, 2))
    outcomes = read_outcomes(folders, reports / "fedhip")
    assert outcomes.methods == ["fedavg", *(f"fedhip:{head}" for head in HEADS)]
    (right,) = outcomes.right["fedavg"]
    known = np.array([[4.0, 10, 6], [5, 12, 7], [3, 8, 5]])
    np.testing.assert_array_equal(right, np.column_stack([known, [np.nan] * 3]))
    assert outcomes.tested[0].tolist() == list(TESTED)


def test_other_test_samples_are_refused(reports):
    path = reports / "train" / "local" / "seed-1" / "per_client.csv"
    path.write_text(path.read_text().replace("1,20,", "1,40,"))
    with pytest.raises(InputError, match=r"seed-1/per_client\.csv has other clients or test"):
        compared(reports)
    path.write_text("client,test\n0,4\n")
    with pytest.raises(InputError, match=r"seed-1/per_client\.csv is of another form"):
        compared(reports)
    path.unlink()
    with pytest.raises(InputError, match=r"seed-1/per_client\.csv is missing"):
        compared(reports)


def test_every_method_is_held_against_the_baseline(reports):
    table = compared(reports)
    told = json.loads(comparison_json(table))
    assert told["fedhip:personalized"]["difference"] is None
    row = told["fedavg"]
    assert row["local-test"]["low"] < 0.5 < row["local-test"]["high"]
    difference = row["difference"]
    assert difference["mean"] == pytest.approx(-0.4)
    assert (difference["gain"], difference["lose"], difference["same"]) == (0, 3, 0)
    assert difference["p"] <= difference["holm"]
    assert told["fedhip:local"]["local-test"]["bold"] is True
    lines = csv.DictReader(io.StringIO(comparison_csv(table)))
    found = {line["method"]: line for line in lines}
    assert found["fedhip:personalized"]["difference:gain"] == ""
    for name, value in difference.items():
        column = "difference" if name == "mean" else f"difference:{name}"
        assert float(found["fedavg"][column]) == value
    for test in ("local-test", "local-test:worst-decile"):
        for end in ("low", "high"):
            assert float(found["fedavg"][f"{test}:{end}"]) == row[test][end]
    assert {name: bool(int(line["bold"])) for name, line in found.items()} == {
        name: of["local-test"]["bold"] for name, of in told.items()
    }


def test_another_baseline_may_be_chosen_if_it_is_compared(reports):
    folders = run_folders(reports / "train", ("fedavg", "local"), (0,))
    told = json.loads(comparison_json(gathered(folders, reports / "fedhip", "local")))
    assert [name for name, row in told.items() if row["difference"] is None] == ["local"]
    with pytest.raises(InputError, match=r"no method fedper .*compare\.baseline"):
        gathered(folders, reports / "fedhip", "fedper")


def test_means_and_deviations_are_over_the_runs(reports):
    table = json.loads(comparison_json(compared(reports)))
    values = [0.5, 0.6, 0.4]
    local = table["fedavg"]["local-test"]
    assert (local["mean"], local["std"]) == (0.5, round(statistics.stdev(values), 6))
    assert table["fedavg"]["new-test:vote"]["mean"] == pytest.approx(0.52)
    assert table["fedavg"]["external-test"]["mean"] == pytest.approx(0.5 / 3, abs=1e-6)
    assert table["local"]["external-test"] == {"mean": None, "std": None}
    assert table["local"]["validation"] == {"mean": 0.7, "std": 0.0}
    assert table["fedhip:global"]["local-test"]["mean"] == 0.9
    assert table["fedhip:global"]["local-test"]["std"] is None
    assert table["fedhip:local"]["new-test"] == {"mean": 0.8, "std": None}
    assert table["fedhip:local"]["new-test:vote"]["mean"] == 0.7
    assert table["fedhip:local"]["new-test:mean-log-probability"]["mean"] is None
    assert table["fedavg"]["external-test:client-mean"]["mean"] == pytest.approx(0.5 / 3, abs=1e-6)
    assert table["fedhip:local"]["external-test"]["mean"] is None
    assert table["fedhip:personalized"]["global-test-own-prior"]["mean"] == 0.3
    assert table["fedavg"]["global-test-own-prior"]["mean"] is None
    assert table["fedhip:local"]["upload-bytes"] == {"mean": 5000.0, "std": None}
    assert [row["seeds"] for row in table.values()] == [3, 3, *[1] * len(HEADS)]


def test_the_table_and_the_json_tell_the_same(reports):
    table = compared(reports)
    lines = {row["method"]: row for row in csv.DictReader(io.StringIO(comparison_csv(table)))}
    told = json.loads(comparison_json(table))
    assert lines.keys() == told.keys()
    for method, row in told.items():
        for name, entry in row.items():
            if name not in ("seeds", "difference"):
                for column, value in ((name, entry["mean"]), (f"{name}:std", entry["std"])):
                    found = lines[method][column]
                    assert (float(found) if found else None) == value


def test_only_the_methods_asked_for_are_told(reports):
    names = [row.method for row in compared(reports, ("local",))]
    assert names == ["local", *(f"fedhip:{head}" for head in HEADS)]


def test_heads_stand_under_names_of_their_own(reports):
    folders = run_folders(reports / "train", ("local",), (0, 1))
    for name in ("local", "fedavg"):
        folder = reports / "heads" / name / "seed-0"
        folder.mkdir(parents=True)
        (folder / "metrics.json").write_text(json.dumps(run_metrics(f"heads:{name}", 0.5)))
        (folder / "per_client.csv").write_text(clients_of({"local-test": 0.5}))
    heads = run_folders(reports / "heads", ("local", "fedavg"), (0,), "heads:")
    rows = {row.method: row.seeds for row in gathered(folders | heads, reports / "fedhip")}
    assert list(rows.items())[:3] == [("local", 2), ("heads:local", 1), ("heads:fedavg", 1)]


def test_what_is_missing_is_named(reports):
    (reports / "train" / "local" / "seed-1" / "metrics.json").unlink()
    with pytest.raises(InputError, match=r"seed-1/metrics\.json is missing or damaged"):
        compared(reports)


def test_what_nobody_measured_is_left_out(reports):
    table = json.loads(comparison_json(compared(reports, ("local",))))
    assert "external-test" not in table["local"]
    assert table["local"]["validation"]["mean"] == 0.7
    header = comparison_csv(compared(reports, ("local",))).splitlines()[0].split(",")
    measures = [name for name in table["local"] if name not in ("seeds", "difference")]
    columns = [x for name in measures for x in (name, f"{name}:std")]
    assert header[2 : 2 + len(columns)] == columns


@pytest.mark.parametrize(
    ("place", "text", "message"),
    [
        ("train/local/seed-1/metrics.json", "[1]", "does not hold values by name"),
        ("train/local/seed-1/metrics.json", "{}", "has no 'local'"),
        ("train/local/seed-1/metrics.json", '{"local": {}}', r"has no 'local\.local-test'"),
        (
            "train/local/seed-1/metrics.json",
            '{"local": {"local-test": {}}}',
            r"has no 'local\.local-test\.mean'",
        ),
        (
            "train/local/seed-1/metrics.json",
            '{"local": {"local-test": {"mean": "high"}}}',
            r"'local\.local-test\.mean' is no number",
        ),
        ("train/local/seed-1/metrics.json", "{", "missing or damaged"),
        ("fedhip/metrics.json", '{"fedhip:local": 1}', r"has no 'fedhip:local\.local-test'"),
        ("fedhip/metrics.json", "{}", "has no 'fedhip:local'"),
    ],
)
def test_a_file_of_another_form_is_named(reports, place, text, message):
    (reports / place).write_text(text)
    with pytest.raises(InputError, match=f"{place.replace('.', '[.]')} is .*{message}"):
        compared(reports)


def with_bins(reports, method, seed):
    """Give a run probabilities."""
    folder = reports / "train" / method / f"seed-{seed}"
    sums = reliability(*drawn(seed), CLIENTS)
    (folder / "reliability.csv").write_text(bins_csv({method: Bins.of(sums)}))
    found = json.loads((folder / "metrics.json").read_text())
    found[method]["local-test"] |= {
        "nll": 1.5 + seed,
        "worst-nll": 2.0,
        "ece": 0.25,
        "worst-ece": 0.5,
    }
    (folder / "metrics.json").write_text(json.dumps(found))
    return Bins.of(sums)


def test_probabilities_are_compared_where_a_method_has_some(reports):
    first, second = (with_bins(reports, "fedavg", seed) for seed in (0, 1))
    table = json.loads(comparison_json(compared(reports)))
    assert table["fedavg"]["local-test:nll"] == {"mean": 2.0, "std": round(0.5**0.5, 6)}
    assert table["fedavg"]["local-test:worst-ece"] == {"mean": 0.5, "std": 0.0}
    assert table["local"]["local-test:nll"] == {"mean": None, "std": None}
    header = comparison_csv(compared(reports)).splitlines()[0].split(",")
    assert {"local-test:nll", "local-test:worst-nll", "local-test:ece:std"} <= set(header)
    folders = run_folders(reports / "train", ("fedavg", "local"), (0, 1, 2))
    bins = gather_bins(folders, reports / "fedhip")
    assert list(bins) == ["fedavg"]
    assert np.array_equal(bins["fedavg"].count, (first + second).count)
    assert bins["fedavg"].ece == pytest.approx((first + second).ece, abs=1e-5)


def test_where_no_method_tells_probabilities_none_are_compared(reports):
    table = json.loads(comparison_json(compared(reports)))
    assert not any("nll" in key or "ece" in key for row in table.values() for key in row)
    folders = run_folders(reports / "train", ("fedavg", "local"), (0, 1, 2))
    assert gather_bins(folders, reports / "fedhip") == {}


@pytest.mark.parametrize("text", [None, "a,b\n1,2\n", "round,local-test\n1,high\n"])
def test_rounds_of_another_form_are_named(reports, text):
    path = reports / "rounds.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=r"rounds\.csv is"):
        rounds_of(path, "b" if text and text[0] == "a" else "local-test")


def test_a_deviation_is_told_only_where_there_is_one(reports):
    one = gathered(run_folders(reports / "train", ["local"], [0]), reports / "fedhip")
    assert comparison_figures.title(one) == "Accuracy after the last round"
    assert comparison_figures.title(compared(reports)).endswith("standard deviation over 3 seeds")


def test_rounds_are_read_without_empty_cells(reports):
    path = reports / "train" / "fedavg" / "seed-0" / "rounds.csv"
    assert rounds_of(path, "local-test") == {2: 0.5}
    assert rounds_of(path, "validation") == {}


def test_figures_depend_on_the_numbers_alone(reports, tmp_path):
    for name in ("one", "two"):
        draw_comparison(tmp_path / f"{name}.png", compared(reports))
        accuracy = {"a": [{1: 0.2, 3: 0.4}, {1: 0.3}], "b": [{}]}
        upload = {"a": [{1: 5e6, 2: 5e6}, {1: 5e6, 2: 6e6}], "b": [{1: 0.0, 2: 0.0}]}
        draw_rounds(tmp_path / f"{name}-rounds.png", accuracy, upload, ("fedhip", 0.5))
        points = dict.fromkeys(HEADS, (3e6, 0.5))
        draw_bytes(tmp_path / f"{name}-bytes.png", accuracy, upload, points)
    for ending in (".png", ".svg", "-rounds.png", "-rounds.svg", "-bytes.png", "-bytes.svg"):
        first, second = (tmp_path / f"{name}{ending}" for name in ("one", "two"))
        assert first.read_bytes() == second.read_bytes()
        assert first.stat().st_size > 5000
    draw_comparison(tmp_path / "other.png", compared(reports, ("local",)))
    assert (tmp_path / "other.png").read_bytes() != (tmp_path / "one.png").read_bytes()


def test_uploads_are_added_up_in_mebibytes():
    assert comparison_figures._running({1: 2.0**20, 2: 0.0, 4: 2.0**21}) == {1: 1.0, 2: 1.0, 4: 3.0}


def test_the_summary_has_the_mean_of_each_trained_method(reports):
    told = json.loads(summary_json(compared(reports)))
    external = {"fedavg": round(0.5 / 3, 6), "local": None}
    assert told == {"trained": {"fedavg": 0.5, "local": 0.7}, "trained-external": external}
    alone = json.loads(summary_json(compared(reports, ("local",))))
    assert alone == {"trained": {"local": 0.7}}
