"""Full and read-only disks: one sentence, and what was there before is still there."""

import shutil
import subprocess

import numpy as np
import pytest
from ruamel.yaml import YAML

from pfl.artifacts.hdf5 import create, put, reading
from tests.workspace import ROOT, command

FULL = "The disk is full"


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 256 KiB in memory, where we may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small disk is not allowed here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def write(path, numbers):
    with create(path, "test", {}) as file:
        put(file, "value", np.arange(numbers))


def test_a_full_disk_leaves_the_previous_artifact(small_disk):
    path = small_disk / "a.h5"
    write(path, 100)
    before = path.read_bytes()
    with pytest.raises(OSError, match="No space left") as caught:
        write(path, 10**6)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == before
    assert [item.name for item in small_disk.iterdir()] == ["a.h5"]
    with reading(path, "test") as file:
        assert len(file["value"]) == 100


def prepare(folder):
    """Run the stage as DVC does."""
    words = ["python", "-m", "stages.prepare"]
    for key, value in YAML(typ="safe").load(ROOT / "params.yaml")["prepare"].items():
        words += ["--no-download"] if value is False else [f"--{key}", str(value)]
    outputs = ["--images", str(folder / "images.h5"), "--index", str(folder / "index.h5")]
    return command(ROOT, *words, *outputs, check=False)


def test_a_stage_on_a_full_disk_ends_in_a_sentence(small_disk):
    (small_disk / "filler").write_bytes(bytes(200 << 10))
    done = prepare(small_disk)
    assert done.returncode == 1
    assert FULL in done.stderr
    assert "Traceback" not in done.stderr
    assert [item.name for item in small_disk.iterdir()] == ["filler"]
