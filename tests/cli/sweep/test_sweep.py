"""Sweeps: what DVC tells of experiments, gathered by the value of a parameter."""

import csv
import statistics
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.cli.sweep.experiments import Experiment, experiment
from pfl.cli.sweep.page import write_sweep
from pfl.cli.sweep.series import gather_sweep, sweep_csv, varying
from pfl.errors import InputError
from pfl.report.page import Page, Section, render

values = st.one_of(st.sampled_from([0.5, 1.0, 10.0, 100.0]), st.sampled_from(["auto", "iid"]))
shares = st.floats(0, 1)


def made(value, accuracy, seed=0, trained=0.5):
    parameters = {"personalize.alpha": value, "partition.seed": seed}
    return Experiment("x", parameters, {"fedhip.local": accuracy, "trained.fedavg": trained})


def test_a_row_of_dvc_is_read_without_what_is_unknown():
    row = {
        "Experiment": "gypsy-ewes", "rev": "402f2af", "Created": "10:01 AM", "State": "Success",
        "fedhip.local": 0.8, "fedhip.global": "!", "trained.fedavg": None,
        "params.yaml:personalize.alpha": 10.0, "prepare.dataset": "digits", "extract.device": None,
        "reports/fedhip": "6f198e.dir",
    }  # fmt: skip
    found = experiment(row)
    assert found.name == "gypsy-ewes"
    assert found.metrics == {"fedhip.local": 0.8}
    assert found.parameters == {"personalize.alpha": 10.0, "prepare.dataset": "digits"}


@given(st.lists(st.tuples(values, shares), min_size=2, max_size=12))
def test_every_experiment_counts_once_at_its_value(pairs):
    found = [made(value, share, seed) for seed, (value, share) in enumerate(pairs)]
    if len({value for value, _ in pairs}) == 1:
        with pytest.raises(InputError, match=r"do not differ in 'personalize\.alpha'"):
            gather_sweep(found, "personalize.alpha")
        return
    points = next(iter(gather_sweep(found, "personalize.alpha").series.values()))
    assert sum(p.experiments for p in points) == len(pairs)
    for p in points:
        group = [m.metrics for m in found if m.parameters["personalize.alpha"] == p.value]
        name = next(iter(gather_sweep(found, "personalize.alpha").series))
        mean = statistics.fmean(one[name] for one in group)
        assert p.low <= p.high
        assert p.mean == pytest.approx(mean)
    numbers = [p.value for p in points if not isinstance(p.value, str)]
    assert numbers == sorted(numbers)


def test_external_tests_are_metrics_too():
    found = experiment({"fedhip-external.local": 0.7, "trained-external.fedavg": 0.6})
    assert found.metrics == {"fedhip-external.local": 0.7, "trained-external.fedavg": 0.6}


def test_methods_that_the_parameter_does_not_touch_are_left_out():
    found = [made(1.0, 0.5), made(10.0, 0.6)]
    assert list(gather_sweep(found, "personalize.alpha").series) == ["fedhip.local"]
    touched = [made(1.0, 0.5), made(10.0, 0.6, trained=0.7)]
    assert list(gather_sweep(touched, "personalize.alpha").series) == [
        "fedhip.local",
        "trained.fedavg",
    ]


def test_other_parameters_that_differ_are_told():
    found = [made(1.0, 0.5), made(10.0, 0.6, seed=3)]
    assert varying(found) == ["personalize.alpha", "partition.seed"]
    assert gather_sweep(found, "personalize.alpha").others == ["partition.seed"]
    with pytest.raises(InputError, match=r"in personalize\.alpha, partition\.seed: name one"):
        gather_sweep(found, "personalize.beta")


@pytest.mark.parametrize("kinds", [(1.0, 10.0, 100.0, "auto"), ("iid", "dirichlet"), (1.0, "auto")])
def test_files_of_a_sweep(tmp_path, kinds):
    found = gather_sweep([made(v, 0.5 + i / 10) for i, v in enumerate(kinds)], "personalize.alpha")
    write_sweep(found, tmp_path, tmp_path / "no report.html")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["sweep.csv", "sweep.png", "sweep.svg"]
    rows = list(csv.DictReader((tmp_path / "sweep.csv").read_text().splitlines()))
    assert {row["personalize.alpha"] for row in rows} == {
        v if isinstance(v, str) else f"{v:g}" for v in kinds
    }
    assert sweep_csv(found) == (tmp_path / "sweep.csv").read_text()


class Ids(HTMLParser):
    """Identifiers of sections and targets of links, in order."""

    def __init__(self):
        super().__init__()
        self.sections, self.links = [], []

    def handle_starttag(self, tag, attrs):
        if tag == "section":
            self.sections.append(dict(attrs)["id"])
        if tag == "a":
            self.links.append(dict(attrs)["href"])


def test_the_report_gets_the_sweep_as_its_last_section_but_one(tmp_path):
    sections = [Section(name, name, ["text"], []) for name in ("data", "repeat")]
    report = tmp_path / "report.html"
    report.write_text(render(Page("title", "subtitle", [], sections, "footer")))
    before = report.read_bytes()
    found = gather_sweep([made(1.0, 0.5), made(10.0, 0.6)], "personalize.alpha")
    write_sweep(found, tmp_path / "sweep", report)
    page = Ids()
    page.feed((tmp_path / "sweep" / "index.html").read_text())
    assert page.sections == ["data", "sweep", "repeat"]
    assert page.links == ["#data", "#sweep", "#repeat"]
    assert report.read_bytes() == before
    report.write_text("<html></html>")
    with pytest.raises(InputError, match="report is of another form"):
        write_sweep(found, tmp_path / "sweep", report)
