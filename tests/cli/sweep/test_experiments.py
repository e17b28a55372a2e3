"""The recipes of docs/sweeps.md, in a clean Git clone: DVC's experiments at once and in a queue."""

import csv
import json
import shutil
import sys

import pytest

from tests.workspace import change, command, contents

pytestmark = pytest.mark.slow

AFTER_HEADS = {"personalize", "evaluate", "compare", "report"}
AGAIN = ("personalize", "evaluate")
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
PFL = (sys.executable, "-c", "from pfl.cli.app import main; main()")


@pytest.fixture(scope="module")
def clone(finished, tmp_path_factory):
    """A clone without any artifact; DVC's cache, which several clones may share, has them."""
    origin = tmp_path_factory.mktemp("origin") / "project"
    shutil.copytree(finished, origin, symlinks=True)
    change(origin, {"personalize.family": "fedhip"})
    (origin / ".dvc" / ".gitignore").write_text("/config.local\n/tmp\n/cache\n")
    command(origin, "git", "init", "--quiet")
    command(origin, "git", "add", "--all")
    command(origin, *GIT, "commit", "--quiet", "--message", "begin")
    folder = tmp_path_factory.mktemp("clone") / "project"
    command(origin, "git", "clone", "--quiet", str(origin), str(folder))
    command(folder, "git", "config", "user.name", "a")
    command(folder, "git", "config", "user.email", "a@b")
    command(folder, "dvc", "cache", "dir", "--local", str(origin / ".dvc" / "cache"))
    assert not list(folder.glob("data/*.h5"))
    return folder


def ran(done):
    """Stages that ran, whichever experiment they belong to; queued ones log to stdout, too."""
    lines = (done.stdout + done.stderr).splitlines()
    return {line.split("'")[1] for line in lines if line.startswith("Running stage")}


def test_experiments_at_once_and_in_a_queue_rerun_heads_only_and_make_a_sweep(clone):
    at_once = command(clone, "dvc", "exp", "run", "-S", "personalize.alpha=1.0")
    assert ran(at_once) == AFTER_HEADS
    command(clone, "dvc", "exp", "run", "--queue", "-S", "personalize.alpha=10.0,100.0")
    queued = command(clone, "dvc", "exp", "run", "--run-all")
    assert ran(queued) == AFTER_HEADS
    command(clone, *PFL, "sweep", "personalize.alpha")
    rows = list(csv.DictReader((clone / "reports/sweep/sweep.csv").read_text().splitlines()))
    told = {r["personalize.alpha"]: r for r in rows if r["metric"] == "fedhip.personalized"}
    assert list(told) == ["1", "10", "100", "auto"]
    assert all(row["experiments"] == "1" for row in told.values())
    assert len({row["mean"] for row in told.values()}) > 1
    assert 'id="sweep"' in (clone / "reports" / "sweep" / "index.html").read_text()


def test_dvc_finds_what_was_added_under_raw_and_weights(clone):
    """It walks no folder that it takes for ignored by Git, and then queued runs lack the data."""
    for place in ("raw", "weights", "begin"):
        file = clone / "data" / place / "mine.bin"
        file.write_bytes(place.encode())
        command(clone, "dvc", "add", str(file))
        file.unlink()
    command(clone, "dvc", "checkout", "--allow-missing")
    for place in ("raw", "weights", "begin"):
        assert (clone / "data" / place / "mine.bin").read_bytes() == place.encode()


def test_two_workers_at_once_give_what_one_gives(clone):
    """Each result is made again, alone and by force, to the same bytes."""
    command(clone, "dvc", "exp", "run", "--queue", "-S", "personalize.alpha=3.0,30.0")
    command(clone, "dvc", "exp", "run", "--run-all", "--jobs", "2")
    listed = json.loads(command(clone, "dvc", "exp", "show", "--json").stdout)
    made = {
        experiment["revs"][0]["data"]["params"]["params.yaml"]["data"]["personalize"]["alpha"]: (
            experiment["name"]
        )
        for commit in listed
        for experiment in commit["experiments"] or []
    }
    assert {3.0, 30.0} <= made.keys()
    found = []
    for alpha in (3.0, 30.0):
        command(clone, "dvc", "exp", "apply", made[alpha])
        found.append(contents(clone))
        command(clone, "dvc", "repro", "--force", "--no-run-cache", "--single-item", *AGAIN)
        assert contents(clone) == found[-1]
    assert found[0]["data/heads.h5"] != found[1]["data/heads.h5"]
