"""Runs at the same time: in one checkout, and in two that share DVC's cache.

Two experiments at once are in tests/cli/sweep/test_experiments.py.
"""

import hashlib
import subprocess

import pytest

from tests.faults.kills import REFUSALS
from tests.workspace import ENVIRONMENT, command, contents, copy_project, ran

pytestmark = pytest.mark.slow

GOAL = "evaluate"


def together(*folders):
    """Begin `dvc repro` in all of them at once; what each said and how it ended."""
    begun = [
        subprocess.Popen(
            ["dvc", "repro", GOAL], cwd=folder, env=ENVIRONMENT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for folder in folders
    ]  # fmt: skip
    said = [process.communicate()[0] for process in begun]
    return [(process.returncode, text) for process, text in zip(begun, said, strict=True)]


def check_results(folder, finished):
    """All bytes are those of a run on its own, and nothing is left to do."""
    assert ran(command(folder, "dvc", "repro", GOAL)) == []
    alone, found = contents(finished), contents(folder)
    assert "data/heads.h5" in found
    assert "reports/fedhip/per_client.csv" in found
    differing = [name for name in found if found[name] != alone[name]]
    assert differing == []
    assert not list(folder.rglob("*.part"))


def check_cache(cache):
    """Every file in the cache has the MD5 that it is named by."""
    files = [path for path in (cache / "files" / "md5").rglob("*") if path.is_file()]
    assert len(files) > 5
    for path in files:
        digest = hashlib.md5(path.read_bytes()).hexdigest()
        assert path.parent.name + path.name.removesuffix(".dir") == digest


def test_of_two_runs_in_one_checkout_one_ends_and_the_other_is_refused_or_follows(
    finished, tmp_path
):
    copy_project(tmp_path)
    ends = together(tmp_path, tmp_path)
    assert 0 in [code for code, _ in ends], ends
    for code, said in ends:
        assert "Traceback" not in said
        assert code == 0 or any(text in said for text in REFUSALS), said
    check_results(tmp_path, finished)
    check_cache(tmp_path / ".dvc" / "cache")


def test_two_checkouts_that_share_a_cache_both_end_with_the_same_bytes(finished, tmp_path):
    folders, cache = [tmp_path / "one", tmp_path / "two"], tmp_path / "cache"
    for folder in folders:
        folder.mkdir()
        copy_project(folder)
        command(folder, "dvc", "cache", "dir", "--local", str(cache))
    for code, said in together(*folders):
        assert code == 0, said
    for folder in folders:
        check_results(folder, finished)
        assert not (folder / ".dvc" / "cache").exists()
    check_cache(cache)
