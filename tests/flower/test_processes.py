"""Flower for real, on this machine's loopback: a simulation, three sites, and sites with TLS.

Every process is started and ended here; afterwards none may be left.
"""

import csv
import json
import os
from contextlib import ExitStack, suppress

import pytest

pytest.importorskip("flwr")

import psutil

from pfl.flower.__main__ import FINISHED, main
from pfl.flower.local.credentials import make_credentials, make_key_pair
from pfl.flower.local.launch import register, submit, superlink, supernode
from tests.flower.test_fedhip import pipeline, sites  # noqa: F401 (fixtures)
from tests.workspace import ROOT

pytestmark = pytest.mark.slow
APP = ROOT / "flower"


@pytest.fixture(autouse=True)
def _these_sources(monkeypatch, tmp_path):
    """Flower's processes import the library that is tested here."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    monkeypatch.setenv("PFL_TEST", str(tmp_path))
    yield
    assert left_behind(tmp_path) == []


def left_behind(tmp_path):
    """Command lines of the processes that this test's environment was handed down to."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            others = process.pid != os.getpid()
            if others and process.environ().get("PFL_TEST") == str(tmp_path):
                found.append(process.cmdline())
    return found


def config(folder, out, **settings):
    told = {"params": str(folder / "params.yaml"), "report": str(out), "wait-seconds": 60.0}
    return told | {name.replace("_", "-"): value for name, value in settings.items()}


def kinds(out):
    with (out / "traffic.csv").open() as stream:
        return {row["message"]: int(row["answers"]) for row in csv.DictReader(stream)}


def test_a_simulation_gives_the_pipelines_sums(pipeline, tmp_path):  # noqa: F811
    told = config(pipeline, tmp_path / "out")
    settings = [word for name, value in told.items() for word in ("--set", f"{name}={value}")]
    places = ["--data", str(pipeline), "--out", str(tmp_path / "kept"), "--app", str(APP)]
    main(["simulate", "--clients", "4", *places, *settings])
    assert (tmp_path / "out" / "server.h5").read_bytes() == (pipeline / "server.h5").read_bytes()
    assert len(list((tmp_path / "kept").glob("client-*/heads.h5"))) == 4


def dying_app(folder):
    """The app with a ClientApp of the tests: client 2 kills its SuperNode when it is to send."""
    text = (APP / "pyproject.toml").read_text(encoding="utf-8")
    assert "pfl.flower.client.app:app" in text
    folder.mkdir()
    text = text.replace("pfl.flower.client.app:app", "tests.flower.dying:app")
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return folder


def test_a_site_that_dies_is_told_and_the_others_go_on(pipeline, sites, tmp_path):  # noqa: F811
    told = config(pipeline, tmp_path / "out", clients=3, on_fault="go-on", reply_seconds=40.0)
    with superlink(tmp_path / "home") as link, ExitStack() as stack:
        nodes = [
            stack.enter_context(supernode(link, k, sites[k], tmp_path / f"site-{k}"))
            for k in range(3)
        ]
        status, log = submit(link, dying_app(tmp_path / "dying"), told)
        assert status == FINISHED, log
        assert nodes[2].wait(5) != 0
    assert kinds(tmp_path / "out") == {
        "query.features": 3, "train.moments": 2, "evaluate.heads": 2
    }  # fmt: skip
    (fault,) = json.loads((tmp_path / "out" / "metrics.json").read_text())["run"]["faults"]
    assert fault.startswith("Client 2 (node ") and "train.moments" in fault
    kept = sorted(path.parent.name for path in tmp_path.glob("site-*/heads.h5"))
    assert kept == ["site-0", "site-1"]


def test_with_tls_only_registered_sites_get_in(pipeline, sites, tmp_path):  # noqa: F811
    credentials = make_credentials(tmp_path / "tls")
    keys = [make_key_pair(tmp_path / f"client-{k}.key") for k in range(3)]
    told = config(pipeline, tmp_path / "out", clients=2)
    with superlink(tmp_path / "home", credentials) as link, ExitStack() as stack:
        stranger = stack.enter_context(supernode(link, 2, sites[2], key=keys[2][0]))
        for k in range(2):
            register(link, keys[k][1])
            stack.enter_context(supernode(link, k, sites[k], key=keys[k][0]))
        status, log = submit(link, APP, told)
        assert status == FINISHED, log
        assert stranger.wait(5) != 0
    assert kinds(tmp_path / "out")["query.features"] == 2
    refused = (tmp_path / "home" / "superlink.log").read_text()
    assert "No SuperNode found with the given public key" in refused
