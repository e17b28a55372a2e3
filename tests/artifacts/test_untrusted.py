"""Artifacts that reach outside themselves, or claim more than they hold, are refused unread."""

from hashlib import sha256

import h5py
import numpy as np
import pytest

from pfl.artifacts.hdf5 import create, damaged, put, put_text, reading, reserve
from pfl.artifacts.untrusted import foreign
from pfl.errors import InputError

SECRET = b"nobody is to see this"


@pytest.fixture
def elsewhere(tmp_path):
    """Two files outside the artifact: raw bytes, and HDF5."""
    (tmp_path / "secret").write_bytes(SECRET)
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["d"] = np.frombuffer(SECRET, np.uint8)
    return tmp_path


def virtual(file, place):
    layout = h5py.VirtualLayout((len(SECRET),), np.uint8)
    layout[:] = h5py.VirtualSource(str(place / "secret.h5"), "d", (len(SECRET),))
    file.create_virtual_dataset("x", layout)


OUTSIDE = {
    "external link": lambda file, place: file.__setitem__(
        "x", h5py.ExternalLink(str(place / "secret.h5"), "/d")
    ),
    "external storage": lambda file, place: file.create_dataset(
        "x", len(SECRET), "u1", external=[(str(place / "secret"), 0, len(SECRET))]
    ),
    "virtual dataset": virtual,
}


@pytest.mark.parametrize("kind", OUTSIDE)
def test_content_of_other_files_is_never_read(elsewhere, kind):
    path = elsewhere / "a.h5"
    with create(path, "test", {}) as file:
        OUTSIDE[kind](file, elsewhere)
    with h5py.File(path) as file:
        assert file["x"][()].tobytes() == SECRET  # else this test would show nothing
    expected = r"a\.h5 was not made by this pipeline: 'x' (is a link|takes its values)"
    with pytest.raises(InputError, match=expected), reading(path, "test"):
        pass


ABSURD = {
    "packed": ("is compressed", {"shape": (10**6,), "compression": "gzip", "fillvalue": 0}),
    "shuffled": ("is compressed", {"shape": (100,), "shuffle": True}),
    "empty chunks": (
        "claims 8,000,000,000,000 bytes and holds 0",
        {"shape": (10**12,), "chunks": (9,)},
    ),
    "empty": ("claims 8,000,000,000,000 bytes and holds 0", {"shape": (10**12,)}),
    "strings": ("varying length", {"shape": (3,), "dtype": h5py.string_dtype()}),
    "references": ("varying length", {"shape": (3,), "dtype": h5py.ref_dtype}),
}


@pytest.mark.parametrize("kind", ABSURD)
def test_what_claims_more_than_it_holds_is_refused(tmp_path, kind):
    message, options = ABSURD[kind]
    path = tmp_path / "a.h5"
    with create(path, "test", {}) as file:
        file.create_dataset("deep/x", **{"dtype": "f8"} | options)
    with pytest.raises(InputError, match=message), reading(path, "test"):
        pass
    assert damaged(str(path)) == "its structure is damaged"  # and nothing was read to find out


def test_soft_links_and_types_are_refused(tmp_path):
    for number, item in enumerate((h5py.SoftLink("/y"), np.dtype("i4"))):
        path = tmp_path / f"{number}.h5"
        with create(path, "test", {}) as file:
            put(file, "y", np.arange(3))
            file["z"] = item
        with pytest.raises(InputError, match="'z' is"), reading(path, "test"):
            pass


def test_what_artifacts_hold_is_allowed(tmp_path):
    with create(tmp_path / "a.h5", "test", {"name": "ä", "number": 3}) as file:
        put(file, "x", np.arange(10**5).reshape(-1, 10))
        put(file, "none", np.zeros((0, 3)))
        reserve(file, "unwritten", (100, 7), "f4")
        put_text(file, "text", ["a", "bc"])
        put(file.create_group("g/0"), "flag", np.array([True, False]))
        file["g/again"] = file["g"]  # a circle of hard links ends
    with reading(tmp_path / "a.h5", "test") as file:
        assert foreign(file) == ""


def test_a_structure_that_cannot_be_opened_is_a_sentence(tmp_path):
    path = tmp_path / "a.h5"
    with create(path, "test", {}) as file:
        put(file, "x", np.arange(3))
    data = path.read_bytes()

    rest = bytes(len(data) - 512)
    path.write_bytes(
        f"pfl artifact test/1 sha256 {sha256(rest).hexdigest()}\n".encode().ljust(512, b"\0") + rest
    )
    with pytest.raises(InputError, match="structure is damaged"), reading(path, "test"):
        pass
