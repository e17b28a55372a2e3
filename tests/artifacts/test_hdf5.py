import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pfl.artifacts.files import replacing, replacing_all, write_text
from pfl.artifacts.hashing import USER_BLOCK, recorded_sha256
from pfl.artifacts.hdf5 import check, create, put, put_text, read, read_text, reading, reserve
from pfl.artifacts.provenance import check_origin, origin
from pfl.errors import InputError

arrays = hnp.arrays(
    st.sampled_from([np.int8, np.int16, np.int64, np.float32, np.float64, np.uint8]),
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=40),
)


def sample(path, seed=0):
    with create(path, "thing", {"alpha": 0.5, "name": "x", "count": 3}) as file:
        rng = np.random.default_rng(seed)
        put(file, "rows", rng.integers(-9, 9, (1000, 7)).astype(np.int16))
        put_text(file.create_group("names"), "class", ["cat", "Straße", ""])


@given(arrays)
def test_what_is_put_is_read(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("a") / "x.h5"
    with create(path, "thing", {}) as file:
        put(file, "values", values)
    with reading(path, "thing") as file:
        np.testing.assert_array_equal(read(file, "values"), values)
        assert read(file, "values").dtype == values.dtype


def test_text_keeps_every_character(tmp_path):
    sample(tmp_path / "x.h5")
    with reading(tmp_path / "x.h5", "thing") as file:
        assert read_text(file["names"], "class") == ("cat", "Straße", "")


def test_equal_content_gives_equal_bytes(tmp_path):
    sample(tmp_path / "a.h5")
    sample(tmp_path / "b.h5")
    sample(tmp_path / "c.h5", seed=1)
    a, b, c = ((tmp_path / f"{n}.h5").read_bytes() for n in "abc")
    assert a == b
    assert a != c


def test_rows_written_in_parts_give_the_bytes_of_the_whole(tmp_path):
    rows = np.arange(3000, dtype=np.int32).reshape(1000, 3)
    with create(tmp_path / "a.h5", "thing", {}) as file:
        put(file, "rows", rows)
    with create(tmp_path / "b.h5", "thing", {}) as file:
        space = reserve(file, "rows", rows.shape, rows.dtype)
        for start in range(0, 1000, 77):
            space[start : start + 77] = rows[start : start + 77]
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_a_failure_leaves_the_old_artifact_and_no_part(tmp_path):
    path = tmp_path / "x.h5"
    sample(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="halfway"), create(path, "thing", {}) as file:
        put(file, "rows", np.zeros(5))
        raise ValueError("halfway")
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["x.h5"]


def test_text_is_replaced_whole(tmp_path):
    path = tmp_path / "deep" / "x.txt"
    write_text(path, "α\n")
    write_text(path, "β\n")
    assert path.read_text(encoding="utf-8") == "β\n"
    with pytest.raises(KeyError), replacing(path) as part:
        part.write_text("half")
        raise KeyError
    assert path.read_text(encoding="utf-8") == "β\n"


def test_a_missing_artifact_says_what_makes_it(tmp_path):
    with pytest.raises(InputError, match=r"x\.h5 does not exist: run `dvc repro`"):
        reading(tmp_path / "x.h5", "thing").__enter__()


def test_what_is_no_file_is_called_what_it_is(tmp_path):
    with pytest.raises(InputError, match="is a folder, not a file"):
        reading(tmp_path, "thing").__enter__()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"is no regular file \(a pipe"):
        reading(tmp_path / "pipe", "thing").__enter__()


def write_both(one, two, fail=False):
    with replacing_all(one, two) as (first, second):
        first.write_text("new")
        if fail:
            raise KeyError
        second.write_text("new")


def test_files_that_change_together_are_replaced_together_or_not_at_all(tmp_path):
    one, two = tmp_path / "a" / "one", tmp_path / "b" / "two"
    write_both(one, two)
    assert (one.read_text(), two.read_text()) == ("new", "new")
    one.write_text("old")
    with pytest.raises(KeyError):
        write_both(one, two, fail=True)
    two.unlink()
    two.mkdir()
    with pytest.raises(IsADirectoryError):
        write_both(one, two)
    assert one.read_text() == "old"
    assert sorted(item.name for item in tmp_path.glob("*/*")) == ["one", "two"]


def test_files_are_on_disk_before_they_are_renamed_and_the_names_after(tmp_path, monkeypatch):
    """A machine that loses power keeps the old file or the new one, never half of one."""
    synced = []

    def fsync(descriptor):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append((path.name, (tmp_path / "a.txt").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_text(tmp_path / "a.txt", "x")
    assert synced == [("a.txt.part", False), (tmp_path.name, True)]
    synced.clear()
    write_both(tmp_path / "a.txt", tmp_path / "b.txt")
    assert [name for name, _ in synced] == ["a.txt.part", "b.txt.part", tmp_path.name]


def test_products_name_their_origin(tmp_path):
    sample(tmp_path / "x.h5")
    name = recorded_sha256(tmp_path / "x.h5", "thing")
    assert name == check(tmp_path / "x.h5", "thing")
    with create(tmp_path / "y.h5", "product", {"thing-sha256": name}) as file:
        put(file, "rows", np.zeros(3))
    with reading(tmp_path / "y.h5", "product") as file:
        assert origin(file, "thing") == name
        assert origin(file, "other") == ""
    for recorded, actual in ((name, name), ("", name), (name, "")):
        check_origin("product", recorded, "thing", actual)
    with pytest.raises(InputError, match="The product and the thing belong to different runs"):
        check_origin("product", name, "thing", name[::-1])


def test_another_schema_is_refused(tmp_path):
    sample(tmp_path / "x.h5")
    with pytest.raises(InputError, match=r"'thing/1' but 'other/1' is needed"):
        reading(tmp_path / "x.h5", "other").__enter__()


@pytest.mark.parametrize("content", [b"", b"not hdf5 at all", b"\x89HDF\r\n\x1a\n"])
def test_something_else_is_refused_by_name(tmp_path, content):
    (tmp_path / "x.h5").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.h5 is corrupt or truncated"):
        reading(tmp_path / "x.h5", "thing").__enter__()


def test_a_truncated_file_is_refused_by_name(tmp_path):
    path = tmp_path / "x.h5"
    sample(path)
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(InputError, match=r"x\.h5 is corrupt"):
        everything(path)


def everything(path):
    with reading(path, "thing") as file:
        return [read(file, "rows"), read_text(file["names"], "class"), dict(file.attrs)]


def test_a_missing_dataset_is_named(tmp_path):
    sample(tmp_path / "x.h5")
    with (
        reading(tmp_path / "x.h5", "thing") as file,
        pytest.raises(InputError, match=r"x\.h5 .*dataset '/names/column' is missing"),
    ):
        read(file["names"], "column")


def test_a_damaged_dataset_is_named(tmp_path):
    path = tmp_path / "x.h5"
    sample(path)
    with h5py.File(path) as file:
        place = USER_BLOCK + file["rows"].id.get_chunk_info(1).byte_offset
    damaged = bytearray(path.read_bytes())
    damaged[place + 3] ^= 0x10
    path.write_bytes(bytes(damaged))
    with pytest.raises(InputError, match=r"x\.h5 is corrupt .*dataset 'rows' is damaged"):
        everything(path)


def test_a_changed_attribute_is_found(tmp_path):
    path = tmp_path / "x.h5"
    sample(path)
    with h5py.File(path, "r+") as file:
        file.attrs["alpha"] = 0.25
    with pytest.raises(InputError, match="changed after it was written"):
        everything(path)


@given(st.data())
def test_no_flipped_byte_goes_unseen(tmp_path_factory, data):
    """Change any byte and the artifact is refused by name."""
    path = tmp_path_factory.mktemp("f") / "x.h5"
    with create(path, "thing", {"step": 0.5}) as file:
        put(file, "rows", np.arange(6, dtype=np.int16).reshape(3, 2))
    good = path.read_bytes()
    place = data.draw(st.integers(0, len(good) - 1))
    flip = data.draw(st.integers(1, 255))
    path.write_bytes(good[:place] + bytes([good[place] ^ flip]) + good[place + 1 :])
    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(InputError, match=r"x\.h5"),
    ):
        patch.setattr("pfl.artifacts.hdf5._locate", lambda path: "somewhere")  # a process a flip
        check(path, "thing")


def test_damage_that_hangs_hdf5_ends_in_a_sentence(tmp_path, monkeypatch):
    path = tmp_path / "x.h5"
    sample(path)
    path.write_bytes(path.read_bytes()[:-1] + b"!")

    def hang(*arguments, **options):
        raise subprocess.TimeoutExpired("python", options["timeout"])

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(InputError, match="its structure is damaged"):
        everything(path)


def test_a_file_open_for_writing_elsewhere_is_called_busy(tmp_path):
    """Nothing is damaged, whether or not HDF5 has marked the file, so nothing is to be deleted."""
    path = tmp_path / "x.h5"
    sample(path)
    with path.open("r+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(InputError, match=r"x\.h5 is open for writing in another"):
            everything(path)
    code = "import h5py, sys; f = h5py.File(sys.argv[1], 'r+'); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        writer.stdout.readline()
        with pytest.raises(InputError, match=r"x\.h5 is open for writing in another") as caught:
            everything(path)
        writer.stdin.close()
    assert "corrupt" not in str(caught.value)
    assert "elete" not in str(caught.value)
    everything(path)


@pytest.mark.parametrize("number", [errno.ENOLCK, 524, errno.ENOSYS])
def test_where_there_are_no_locks_artifacts_are_read_without(tmp_path, monkeypatch, number):
    sample(tmp_path / "x.h5")

    class Lockless(h5py.File):
        def __init__(self, name, mode="r", locking=None):
            if locking is not False:
                raise OSError(number, "unable to lock file")
            super().__init__(name, mode, locking=locking)

    monkeypatch.setattr(h5py, "File", Lockless)
    assert len(everything(tmp_path / "x.h5")[0]) == 1000


def test_a_failing_disk_is_not_called_a_corrupt_file(tmp_path, monkeypatch):
    path = tmp_path / "x.h5"
    sample(path)

    def fail(*arguments, **options):
        raise OSError(errno.EIO, "file read failed: errno = 5")

    with reading(path, "thing") as file, monkeypatch.context() as patch:
        patch.setattr(h5py.Dataset, "__getitem__", fail)
        with pytest.raises(OSError, match="Input/output") as caught:
            read(file, "rows")
        assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(path))
    monkeypatch.setattr(h5py, "File", fail)
    with pytest.raises(OSError, match="Input/output") as caught:
        everything(path)
    assert caught.value.filename == str(path)


def test_damage_is_located_whatever_the_working_folder(tmp_path, monkeypatch):
    """Also where another folder named pfl would be found there first."""
    (tmp_path / "pfl").mkdir()
    (tmp_path / "pfl" / "__init__.py").write_text("raise SystemExit('the wrong package')")
    monkeypatch.chdir(tmp_path)
    test_a_damaged_dataset_is_named(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    test_a_damaged_dataset_is_named(tmp_path)


@pytest.mark.parametrize(
    "number", [errno.EINVAL, errno.ENOSYS, errno.EBADF, errno.ENOTSUP, errno.EACCES]
)
def test_a_folder_that_cannot_be_synced_fails_no_finished_work(tmp_path, monkeypatch, number):
    """As on CIFS, vboxsf and some FUSE; a file that cannot be synced is no finished work."""
    kinds = set()

    def fsync(descriptor):
        folder = Path(f"/proc/self/fd/{descriptor}").readlink().is_dir()
        kinds.add(folder)
        if folder in failing:
            raise OSError(number, "x")

    monkeypatch.setattr(os, "fsync", fsync)
    failing = {True}
    write_text(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").read_text() == "new"
    assert kinds == {True, False}
    failing = {False}
    with pytest.raises(OSError, match="x"):
        write_text(tmp_path / "a.txt", "newer")
    assert (tmp_path / "a.txt").read_text() == "new"


def test_a_folder_on_a_failing_disk_is_told(tmp_path, monkeypatch):
    def fsync(descriptor):
        if Path(f"/proc/self/fd/{descriptor}").readlink().is_dir():
            raise OSError(errno.EIO, "x")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="x"):
        write_text(tmp_path / "a.txt", "new")


def test_the_first_line_says_what_the_file_is(tmp_path):
    sample(tmp_path / "x.h5")
    with (tmp_path / "x.h5").open("rb") as stream:
        line = stream.readline().decode()
    assert line == f"pfl artifact thing/1 sha256 {check(tmp_path / 'x.h5', 'thing')}\n"


def test_a_full_disk_keeps_the_old_artifact(tmp_path):
    """On a real file system of one megabyte."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("this machine does not allow mounting a small file system")
    try:
        path = tmp_path / "x.h5"
        sample(path)
        before = path.read_bytes()
        with pytest.raises(OSError, match=r"x\.h5") as caught, create(path, "thing", {}) as file:
            put(file, "rows", np.zeros((2000, 200)))
        assert caught.value.errno == errno.ENOSPC
        assert path.read_bytes() == before
        assert [item.name for item in tmp_path.iterdir()] == ["x.h5"]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_nothing_of_the_day_or_the_place_is_stored(tmp_path):
    sample(tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5") as file:
        assert set(file.attrs) == {
            "alpha",
            "name",
            "count",
            "version-numpy",
        }
    assert str(Path.home()).encode() not in (tmp_path / "x.h5").read_bytes()
