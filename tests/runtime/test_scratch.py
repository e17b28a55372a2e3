import errno
import fcntl
import subprocess
import sys

import pytest

from pfl.errors import InputError
from pfl.runtime.locks import NO_LOCKS
from pfl.runtime.scratch import code_sha256, file_sha256, fingerprint, scratch


def test_work_survives_a_failure_and_is_deleted_at_the_end(tmp_path):
    with pytest.raises(KeyboardInterrupt), scratch(tmp_path, "extract", "k1") as folder:
        (folder / "block").write_text("done")
        raise KeyboardInterrupt
    with scratch(tmp_path, "extract", "k1") as folder:
        assert (folder / "block").read_text() == "done"
    assert [p.name for p in (tmp_path / "extract").iterdir()] == ["lock"]


def test_another_key_sees_nothing_and_both_are_deleted_at_the_end(tmp_path):
    with pytest.raises(KeyError), scratch(tmp_path, "extract", "k1") as folder:
        (folder / "block").write_text("done")
        raise KeyError
    with scratch(tmp_path, "extract", "k2") as folder:
        assert list(folder.iterdir()) == []
    assert [p.name for p in (tmp_path / "extract").iterdir()] == ["lock"]


def test_a_second_run_is_refused_while_the_first_lives(tmp_path):
    with (
        scratch(tmp_path, "extract", "k"),
        pytest.raises(InputError, match="Another 'extract' is at work"),
        scratch(tmp_path, "extract", "k"),
    ):
        raise AssertionError("two runs hold one lock")


def failing(number):
    def flock(descriptor, operation):
        raise OSError(number, "as the system says")

    return flock


@pytest.mark.parametrize("number", sorted(NO_LOCKS))
def test_work_goes_on_where_the_file_system_has_no_locks(tmp_path, monkeypatch, number):
    monkeypatch.setattr(fcntl, "flock", failing(number))
    with scratch(tmp_path, "extract", "k") as folder:
        assert folder.is_dir()


def test_a_lock_that_fails_is_not_called_another_run(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", failing(errno.EIO))
    with pytest.raises(OSError, match="as the system says") as caught:
        scratch(tmp_path, "extract", "k").__enter__()
    assert (caught.value.errno, caught.value.filename) == (
        errno.EIO,
        str(tmp_path / "extract" / "lock"),
    )


def test_the_lock_ends_with_its_process(tmp_path):
    code = (
        "import sys, os, signal, pathlib; from pfl.runtime.scratch import scratch\n"
        "with scratch(pathlib.Path(sys.argv[1]), 'extract', 'k') as f:\n"
        "    (f / 'block').write_text('done'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    with scratch(tmp_path, "extract", "k") as folder:
        assert (folder / "block").read_text() == "done"


def test_fingerprints_tell_any_two_works_apart():
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
    assert fingerprint({"a": "1"}) != fingerprint({"a": 1})


def test_hashes_follow_the_content(tmp_path):
    (tmp_path / "x").write_bytes(b"abc")
    assert file_sha256(tmp_path / "x").startswith("ba7816bf8f01cfea")
    assert code_sha256() == code_sha256()
    assert code_sha256(("pfl",)) != code_sha256(("json",))
