"""One writer to a folder at a time."""

import errno
import fcntl
import os
import signal
import subprocess
import sys

import pytest

from pfl.errors import InputError
from pfl.runtime.locks import NO_LOCKS, only_writer

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
    busy = pytest.raises(InputError, match="Another stage is at work")
    with only_writer([tmp_path, tmp_path]), busy, only_writer([tmp_path]):
        pass
    with only_writer([tmp_path]):
        pass


def test_writers_that_share_a_folder_keep_out_only_those_who_do_not(tmp_path):
    busy = pytest.raises(InputError, match="Another stage is at work")
    with only_writer([tmp_path], shared=True):
        with only_writer([tmp_path], shared=True):
            pass
        with busy, only_writer([tmp_path]):
            pass
    with only_writer([tmp_path]), busy, only_writer([tmp_path], shared=True):
        pass


@pytest.fixture
def failing(monkeypatch):
    """Make every lock fail with a number of the system."""

    def fail_with(number):
        def flock(descriptor, operation):
            raise OSError(number, "told by the system")

        monkeypatch.setattr(fcntl, "flock", flock)

    return fail_with


@pytest.mark.parametrize("number", sorted({errno.ENOSYS, errno.ENOLCK, 524, *NO_LOCKS}))
def test_where_there_are_no_locks_work_goes_on_without(tmp_path, failing, number):
    failing(number)
    with only_writer([tmp_path]):
        pass


def test_a_failing_lock_is_not_called_another_stage(tmp_path, failing):
    failing(errno.EWOULDBLOCK)
    with pytest.raises(InputError, match="Another stage is at work"), only_writer([tmp_path]):
        pass
    failing(errno.EIO)
    with pytest.raises(OSError, match="told by the system") as caught, only_writer([tmp_path]):
        pass
    assert caught.value.filename == str(tmp_path)
