"""Archives of arrays that lie, are bombs or hold what NumPy does not write; any arrays at all."""

import io
import struct
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays, scalar_dtypes

from pfl.data.sources import archive
from pfl.data.sources.registry import Dataset
from pfl.errors import InputError
from tests.sources import check_law, request

X = np.random.default_rng(0).integers(0, 256, (12, 6, 5, 3), dtype=np.uint8)
Y = np.arange(12) % 3


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def claiming(shape, kind="|u1", body=b""):
    """A member whose header claims a shape."""
    header = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + body


def packed(path, x_train, how=zipfile.ZIP_DEFLATED, names=("x_train.npy",)):
    with zipfile.ZipFile(path, "w", how) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a name that comes twice
        for name in names:
            file.writestr(name, x_train)
        file.writestr("y_train.npy", npy(Y))


def marked(path, offset, value):
    """Change a field at ``offset`` of all headers of files in the archive."""
    packed(path, npy(X))
    data = bytearray(path.read_bytes())
    for mark, back in ((b"PK\3\4", 0), (b"PK\1\2", 2)):
        at = data.find(mark)
        while at >= 0:
            data[at + offset + back] = value
            at = data.find(mark, at + 4)
    path.write_bytes(data)


LIES = {
    "a terabyte in the header": (lambda p: packed(p, claiming((10**12,))), "and holds 0"),
    "more than 64 bits": (lambda p: packed(p, claiming((2**40, 2**40))), "and holds 0"),
    "less than it holds": (
        lambda p: packed(p, claiming((3,), body=bytes(9))),
        "3 bytes and holds 9",
    ),
    "negative sides": (lambda p: packed(p, claiming((-4, -5), body=bytes(20))), "shape is"),
    "half a sample": (lambda p: packed(p, claiming((1.5,))), "header is damaged"),
    "a program as shape": (lambda p: packed(p, claiming("(exit(9),)")), "header is damaged"),
    "nested brackets": (
        lambda p: packed(p, claiming("(" * 4000 + ")" * 4000)),
        "header is damaged",
    ),
    "a header of 20 kB": (lambda p: packed(p, claiming((1,) * 6500)), "header is damaged"),
    "one element of gigabytes": (lambda p: packed(p, claiming((1,), "<U500000000")), "and holds 0"),
    "no array": (lambda p: packed(p, b"hello"), "magic"),
    "no extension": (lambda p: packed(p, npy(X), names=("x_train",)), "no item named"),
    "encrypted": (lambda p: marked(p, 6, 1), "packs nothing"),
    "unknown packing": (lambda p: marked(p, 8, 97), "packs nothing"),
    "LZMA": (lambda p: packed(p, npy(X), how=zipfile.ZIP_LZMA), "packs nothing"),
    "empty": (lambda p: p.write_bytes(b""), "no .npz file"),
    "zip without files": (lambda p: zipfile.ZipFile(p, "w").close(), "lacks x_train, y_train"),
    "one array": (lambda p: p.write_bytes(npy(X)), "is a single array"),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_archive_that_lies_is_refused_before_it_is_unpacked(tmp_path, lie):
    make, message = LIES[lie]
    make(tmp_path / "data.npz")
    with pytest.raises(InputError, match=message) as caught:
        Dataset.NPZ.load(request(tmp_path / "data.npz"))
    assert "allow_pickle" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_name_that_leads_out_is_a_name_like_any_other(tmp_path):
    packed(tmp_path / "data.npz", npy(X), names=("x_train.npy", "../../x.npy", "/etc/x.npy"))
    assert len(Dataset.NPZ.load(request(tmp_path / "data.npz")).images) == 12
    assert [file.name for file in tmp_path.iterdir()] == ["data.npz"]


def test_of_two_arrays_of_one_name_the_last_counts_as_in_numpy(tmp_path):
    packed(tmp_path / "data.npz", npy(X), names=("x_train.npy", "x_train.npy"))
    assert len(Dataset.NPZ.load(request(tmp_path / "data.npz")).images) == 12


def test_what_does_not_fit_into_memory_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(
        tmp_path / "data.npz", x_train=np.zeros((12, 500, 500, 3), np.uint8), y_train=Y
    )
    assert (tmp_path / "data.npz").stat().st_size < 20_000
    assert len(Dataset.NPZ.load(request(tmp_path / "data.npz")).images) == 12
    monkeypatch.setattr(archive, "memory", lambda: 15 * 10**6)
    with pytest.raises(InputError, match=r"unpacks to .* must fit into memory.*a folder"):
        Dataset.NPZ.load(request(tmp_path / "data.npz"))


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "elsewhere.npz", x_train=X, y_train=Y)
    (tmp_path / "data" / "data.npz").symlink_to(tmp_path / "elsewhere.npz")
    with pytest.raises(InputError, match="outside the data folder"):
        Dataset.NPZ.load(request(tmp_path / "data"))


REMEDIES = {
    "yes and no": ({"x_train": X > 9}, "makes true white"),
    "16 bits": ({"x_train": X.astype(np.uint16) * 257}, r"x_train / 257\)\.round\(\)\.astype\("),
    "NaN": ({"x_train": np.full(X.shape, np.nan)}, "NaN or infinite"),
    "RGBA": ({"x_train": X[..., [0, 1, 2, 0]]}, r"x_train\[\.\.\., :3\]"),
    "text": ({"x_train": np.array(["a"] * 12)}, "levels of the pixels"),
    "labels with gaps in them": ({"y_train": np.where(Y, Y, np.nan)}, "without a label"),
    "a row of labels": ({"y_train": Y[None]}, r"y_train\[0\]"),
    "a class without a name": ({"classes": np.array(["", "b", "c"])}, "without a name"),
    "a class on two lines": ({"classes": np.array(["a\nb", "b", "c"])}, "holds a line break"),
}


@pytest.mark.parametrize("case", REMEDIES)
def test_the_remedy_is_for_the_cause(tmp_path, case):
    change, message = REMEDIES[case]
    np.savez(tmp_path / "data.npz", **({"x_train": X, "y_train": Y} | change))
    with pytest.raises(InputError, match=message):
        Dataset.NPZ.load(request(tmp_path / "data.npz"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.sampled_from(["x_train", "y_train", "group_train", "classes"]),
    array=arrays(scalar_dtypes(), array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=12)),
)
@example("y_train", np.zeros(12, [("a", "i4")]))
@example("x_train", np.zeros((12, 0, 3), np.uint8))
def test_any_array_works_or_is_refused(tmp_path_factory, name, array):
    path = tmp_path_factory.mktemp("any") / "data.npz"
    np.savez(path, **({"x_train": X, "y_train": Y} | {name: array}))
    try:
        samples = Dataset.NPZ.load(request(path))
    except InputError as error:
        assert str(error).isprintable()
    else:
        check_law(samples)


@settings(max_examples=60, deadline=None)
@given(
    at=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4
    )
)
def test_any_damage_works_or_is_refused(tmp_path_factory, at):
    path = tmp_path_factory.mktemp("damaged") / "data.npz"
    np.savez(path, x_train=X, y_train=Y)
    data = bytearray(path.read_bytes())
    for place, value in at:
        data[int(place * len(data))] = value
    path.write_bytes(data)
    try:
        check_law(Dataset.NPZ.load(request(path)))
    except InputError as error:
        assert str(error).isprintable()
