"""The run config and the parameter file: what cannot be meant is refused with a remedy."""

import json

import pytest

pytest.importorskip("flwr")

import tomllib

from pfl.errors import InputError
from pfl.fedhip.selection.candidates import personalize_settings
from pfl.flower.parameters import (
    check_plain_sums,
    left_out_clients,
    read_json,
    read_parameters,
    run_settings,
    to_json,
)
from pfl.runtime.values import number_or_auto
from tests.workspace import ROOT

HEADS = {
    "family": "auto", "alpha": "auto", "beta": "auto", "rho": 0.5, "shrinkage": "auto",
    "pull": "auto", "prior": "auto", "smoothing": "auto",
}  # fmt: skip


def app_config():
    text = (ROOT / "flower" / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["tool"]["flwr"]["app"]


def test_the_apps_own_config_is_complete():
    settings = run_settings(app_config()["config"])
    assert settings.method == "fedhip" and settings.leave == () and settings.state is None


def test_the_engine_is_the_pinned_one_everywhere():
    """Three files name Flower's version, which must be one."""
    app = tomllib.loads((ROOT / "flower" / "pyproject.toml").read_text())["project"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (pin,) = app["dependencies"]
    version = pin.removeprefix("flwr==")
    assert f"flwr[simulation]=={version}" in project["optional-dependencies"]["flower"]
    assert f"flwr=={version}" in (ROOT / "constraints.txt").read_text().splitlines()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("on-fault", "ignore", "choose stop or go-on"), ("leave", "2;3", "commas between")],
)
def test_run_config_that_cannot_be_meant(name, value, message):
    with pytest.raises(InputError, match=message):
        run_settings(app_config()["config"] | {name: value})


def test_clients_that_leave_are_numbers():
    assert run_settings(app_config()["config"] | {"leave": "2, 7"}).leave == (2, 7)


def test_without_a_parameter_file_the_remedy_is_told(tmp_path):
    with pytest.raises(InputError, match="set `params` in the run config"):
        read_parameters(tmp_path / "params.yaml")
    (tmp_path / "params.yaml").write_text("just words")
    with pytest.raises(InputError, match="has no sections"):
        read_parameters(tmp_path / "params.yaml")


def test_the_projects_parameters_are_understood():
    sections = read_parameters(ROOT / "params.yaml")
    settings = personalize_settings(sections["personalize"])
    assert settings.alpha is None
    assert personalize_settings(HEADS).rho == 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"family": "best"}, "personalize.family is 'best': choose from"),
        ({"alpha": -1}, "personalize.alpha is -1: it must be auto or a finite number of 0 or more"),
        ({"beta": 0}, "personalize.beta is 0: it must be auto or a finite number above 0"),
        ({"rho": float("inf")}, "personalize.rho is inf"),
        ({"rho": True}, "personalize.rho is True"),
        ({"shrinkage": 0}, "personalize.shrinkage is 0"),
        ({"pull": "few"}, "personalize.pull is 'few'"),
        ({"prior": "own"}, "personalize.prior is 'own': choose from auto, none"),
        ({"smoothing": 0}, "personalize.smoothing is 0"),
        ({"smoothing": "some"}, "personalize.smoothing is 'some'"),
    ],
)
def test_settings_of_heads_are_checked(change, message):
    with pytest.raises(InputError, match=message):
        personalize_settings(HEADS | change)


def test_a_setting_that_is_missing_is_named():
    """Such as in parameters of an older version."""
    old = {name: value for name, value in HEADS.items() if name != "smoothing"}
    with pytest.raises(InputError, match=r"personalize\.smoothing is missing: add it"):
        personalize_settings(old)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": {"lift": 4096}}, "has a view"),
        ({"features": {"norm": 5.0}}, "has a view"),
        ({"aggregate": {"privacy": {"epsilon": 1.0}}}, "cannot make private sums"),
    ],
)
def test_what_sites_cannot_do_is_not_left_out_in_silence(change, message):
    sections = read_parameters(ROOT / "params.yaml")
    check_plain_sums(sections)
    with pytest.raises(InputError, match=message):
        check_plain_sums(sections | change)


def test_numbers_keep_every_bit_on_their_way_to_clients():
    values = {"third": 1 / 3, "tiny": 5e-324}
    assert read_json(to_json(values)) == values
    assert json.loads(to_json({"x": 1})) == {"x": 1}
    assert number_or_auto(2, "aggregate.beta") == 2.0


@pytest.mark.parametrize(
    ("section", "clients"),
    [
        ({}, set()),
        ({"leave-out": [0, 3]}, {0, 3}),
        ({"leave-out": 0}, {0}),
        ({"leave-out": 7}, {7}),
    ],
)
def test_who_is_left_out_as_in_the_pipeline(section, clients):
    assert left_out_clients(section) == clients


@pytest.mark.parametrize("value", ["3", [True], [-1], None, [1.5]])
def test_other_things_are_no_clients(value):
    with pytest.raises(InputError, match=r"^aggregate\.leave-out is "):
        left_out_clients({"leave-out": value})
