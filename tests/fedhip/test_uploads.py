import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.artifacts.hdf5 import create
from pfl.errors import InputError
from pfl.fedhip.closed_form import aggregate
from pfl.fedhip.moments import Moments, moments
from pfl.fedhip.server import read_server, write_server
from pfl.fedhip.uploads import (
    TYPES,
    create_uploads,
    open_uploads,
    put_integers,
    read_integers,
    smallest,
)
from tests.fedhip.test_moments import of
from tests.strategies import federations


def written(federation, path):
    shape = (federation.clients, federation.rows.shape[1], federation.classes)
    with create_uploads(path, *shape, federation.step) as file:
        for client in range(federation.clients):
            file.add(client, of(federation, client))
    return path


@given(federations())
def test_what_is_sent_arrives_exactly(tmp_path_factory, federation):
    path = written(federation, tmp_path_factory.mktemp("u") / "uploads.h5")
    with open_uploads(path) as uploads:
        assert uploads.clients == federation.clients
        for client in range(federation.clients):
            assert uploads.of(client) == of(federation, client)


@given(federations(max_samples=10))
def test_an_upload_holds_sums_and_nothing_else(tmp_path_factory, federation):
    """No more numbers than the moments have; a class with one sample is that sample, though."""
    path = written(federation, tmp_path_factory.mktemp("u") / "uploads.h5")
    width = federation.rows.shape[1]
    with h5py.File(path) as file:
        for group in file["client"].values():
            assert set(group) - {"gram-high", "cross-high"} == {"gram", "class", "count", "cross"}
            assert group["gram"].shape == (width * (width + 1) // 2,)
            assert group["cross"].shape == (len(group["class"]), width)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8))
def test_the_smallest_type_is_exact_and_smallest(values):
    wide = np.array(values, dtype=np.int64)
    narrow = smallest(wide)
    np.testing.assert_array_equal(narrow, wide)
    smaller = [t for t in TYPES if np.dtype(t).itemsize < narrow.dtype.itemsize]
    assert all((wide.astype(t) != wide).any() for t in smaller)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8))
def test_stored_integers_are_exact_and_few_bytes(tmp_path_factory, values):
    wide = np.array(values, dtype=np.int64)
    with create(tmp_path_factory.mktemp("i") / "i.h5", "integers", {}) as file:
        put_integers(file, "x", wide)
        np.testing.assert_array_equal(read_integers(file, "x"), wide)
        stored = sum(dataset.dtype.itemsize for dataset in file.values())
    bits = max((v if v >= 0 else ~v).bit_length() + 1 for v in values or [0])
    assert stored == next(size for size in (1, 2, 4, 5, 6, 8) if bits <= 8 * size)


@given(federations(), st.sampled_from([1e-3, 1.0, 100.0]))
def test_the_servers_answer_arrives_exactly(tmp_path_factory, federation, beta):
    path = tmp_path_factory.mktemp("s") / "server.h5"
    order = np.argsort(federation.labels, kind="stable")
    total = moments(
        federation.rows[order], federation.labels[order], federation.classes, federation.step
    )
    knowledge = aggregate(total, beta)
    write_server(path, total, knowledge)
    got_total, got = read_server(path)
    assert got_total == total
    assert got.beta == beta
    for name in ("gram", "cross", "head"):
        np.testing.assert_array_equal(getattr(got, name), getattr(knowledge, name))
    np.testing.assert_array_equal(got.factor.lower, knowledge.factor.lower)


def test_a_missing_client_is_named(tmp_path):
    with create_uploads(tmp_path / "u.h5", 2, 3, 2, 0.5) as file:
        file.add(0, Moments.zero(3, 2, 0.5))
    with (
        open_uploads(tmp_path / "u.h5") as uploads,
        pytest.raises(InputError, match="client 1"),
    ):
        uploads.of(1)
