"""Results that a link leads out of a Git clone are told before they are computed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pfl.errors import InputError
from pfl.runtime.outside import refuse_links
from tests.workspace import ENVIRONMENT, ROOT

DATA = [Path("data")]
STUB = '#!/bin/sh\necho "$0 $*" >> called\n'


@pytest.fixture
def clone(tmp_path):
    """A clone, as far as the check looks, whose `data` leads to another disk."""
    project = tmp_path / "project"
    for place in (project / ".git", project / ".dvc", tmp_path / "disk" / "data"):
        place.mkdir(parents=True)
    (project / "data").symlink_to(tmp_path / "disk" / "data")
    return project


def test_a_folder_that_leads_out_of_the_clone_is_refused(clone):
    with pytest.raises(InputError, match="data leads by a link to"):
        refuse_links(clone, DATA)
    with pytest.raises(InputError, match="data/public leads by a link"):
        refuse_links(clone, [Path("data/public")])


def test_links_of_inputs_of_the_cache_and_within_the_clone_do_not_matter(clone, tmp_path):
    (clone / "data").unlink()
    (clone / "results").mkdir()
    (clone / "runs").symlink_to("results")
    (clone / "data").mkdir()
    (clone / "data" / "raw").symlink_to(tmp_path / "disk")
    (clone / ".dvc" / "cache").symlink_to(tmp_path / "disk")
    (tmp_path / "way").symlink_to(clone)
    refuse_links(tmp_path / "way", [*DATA, Path("runs"), Path("reports")])
    (clone / "reports").symlink_to(tmp_path / "disk")
    with pytest.raises(InputError, match="reports leads by a link"):
        refuse_links(tmp_path / "way", [*DATA, Path("runs"), Path("reports")])


def test_without_git_a_link_is_no_trouble(clone):
    (clone / ".dvc" / "config.local").write_text("[core]\n    no_scm = true\n")
    refuse_links(clone, DATA)
    (clone / ".dvc" / "config.local").unlink()
    with pytest.raises(InputError):
        refuse_links(clone, DATA)
    (clone / ".git").rmdir()
    refuse_links(clone, DATA)


def test_make_repro_says_so_before_anything_runs(clone):
    """With programs in place of DVC and the installation that only note that they were called."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, clone)
    binaries = clone / ".venv" / "bin"
    binaries.mkdir(parents=True)
    for name in ("dvc", "pfl"):
        (binaries / name).write_text(STUB)
        (binaries / name).chmod(0o755)
    (binaries / "python").symlink_to(sys.executable)
    (clone / ".venv" / ".installed").touch()
    environment = ENVIRONMENT | {"PYTHONPATH": str(ROOT)}
    command = ["make", "repro"]
    told = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True)
    assert told.returncode != 0
    assert "Error: data leads by a link" in told.stderr
    assert "repro" not in (clone / "called").read_text()
    (clone / "data").unlink()
    subprocess.run(command, cwd=clone, env=environment, check=True)
    assert "dvc repro" in (clone / "called").read_text()


def test_a_stage_that_dvc_runs_says_so_before_it_works(clone):
    """DVC itself says `outside of git repository` when the stage has finished."""
    flags = ["--dataset", "digits", "--path", "raw", "--test-fraction", "0.2", "--seed", "0"]
    outputs = ["--images", "data/images.h5", "--index", "data/index.h5"]
    command = [sys.executable, "-m", "stages.prepare", *flags, *outputs]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    told = subprocess.run(
        command,
        cwd=clone,
        env=environment | {"DVC_STAGE": "prepare"},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 1
    assert told.stderr.startswith("Error: data leads by a link")
    assert list((clone / "data").iterdir()) == []
    subprocess.run(command, cwd=clone, env=environment, check=True)
    assert (clone / "data" / "images.h5").is_file()
