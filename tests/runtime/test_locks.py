"""One writer to a folder at a time."""

import os
import signal
import subprocess
import sys

import pytest

from pfl.errors import InputError
from pfl.runtime.locks import only_writer

HOLD = (
    "import sys, time; from pathlib import Path; from pfl.runtime.locks import only_writer\n"
    "with only_writer([Path(sys.argv[1])]): print('held', flush=True); time.sleep(60)"
)


@pytest.fixture
def held(tmp_path):
    """A folder that another process writes to, and that process."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield tmp_path, process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_writer_is_refused_until_the_first_has_been_killed(held):
    folder, process = held
    with pytest.raises(InputError, match="Another stage is at work"), only_writer([folder]):
        pass
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with only_writer([folder]):
        pass


def test_other_folders_are_free_and_nothing_is_left_behind(held):
    folder, _ = held
    with only_writer([folder / "new" / "place", folder / "other"]):
        pass
    assert sorted(path.name for path in folder.rglob("*")) == ["new", "other", "place"]


def test_a_folder_named_twice_is_locked_once(tmp_path):
    with only_writer([tmp_path, tmp_path]):
        pass
