from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pfl.data.client_features.by_client
from pfl.artifacts.hdf5 import create, put
from pfl.data.client_features.by_client import by_client, rows_of
from pfl.data.features.features import open_features
from pfl.data.samples.clients import assign
from pfl.data.samples.index import Index
from pfl.errors import InputError


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    """Row i of these features is (i, -i)."""
    path = tmp_path_factory.mktemp("rows") / "features.h5"
    number = np.arange(500, dtype=np.int16)
    facts = {"step": 0.5, "backbone": "none", "saturated": 0, "images-sha256": "a" * 64}
    with create(path, "features", facts) as file:
        put(file, "feature", np.stack([number, -number], 1))
    with open_features(path) as opened:
        yield opened


@given(samples=st.lists(st.integers(0, 499), max_size=60), block=st.integers(1, 600))
def test_rows_come_in_the_order_asked_for(features, samples, block):
    wanted = np.array(samples, dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pfl.data.client_features.by_client, "BLOCK_ROWS", block)
        rows = rows_of(features, wanted)
    np.testing.assert_array_equal(rows, np.stack([wanted, -wanted], 1))


@given(seed=st.integers(0, 2**32 - 1), clients=st.integers(1, 9), budget=st.integers(1, 3000))
def test_every_client_comes_once_whatever_the_memory(features, seed, clients, budget):
    rng = np.random.default_rng(seed)
    index = an_index(rng.integers(0, 3, 500))
    held = assign(rng.integers(-1, clients, 500), np.arange(500), index.label, clients, 3)
    seen = list(by_client(features, index, held, budget))
    assert [own.client for own in seen] == list(range(clients))
    for own in seen:
        np.testing.assert_array_equal(own.rows[:, 0], held.of(own.client))
        np.testing.assert_array_equal(own.labels, index.label[held.of(own.client)])
        assert (np.diff(own.labels) >= 0).all()


def an_index(label):
    zero = np.zeros(len(label), np.int64)
    return Index(label, zero, zero, ("a", "b", "c"), ("all",))


@pytest.mark.parametrize(
    ("images", "index_of_clients", "words"),
    [
        ("a", "c", None),
        ("", "", None),
        ("b", "c", "features and the images of the index"),
        ("a", "d", "clients and the index"),
    ],
)
def test_files_of_equal_sizes_made_from_others_are_refused(
    features, images, index_of_clients, words
):
    index = replace(an_index(np.zeros(500, np.int64)), images_sha256=images * 64, sha256="c" * 64)
    held = assign(np.zeros(500, np.int64), np.arange(500), index.label, 1, 3)
    held = replace(held, index_sha256=index_of_clients * 64)
    if words is None:
        assert len(list(by_client(features, index, held))) == 1
        return
    with pytest.raises(InputError, match=f"{words} belong to different runs.*dvc repro"):
        next(by_client(features, index, held))


@pytest.mark.parametrize(("indexed", "highest"), [(499, 498), (500, 500)])
def test_inputs_of_different_runs_are_refused(features, indexed, highest):
    index = an_index(np.zeros(indexed, np.int64))
    held = assign(np.array([0]), np.array([highest]), np.array([0]), 1, 3)
    with pytest.raises(InputError, match="different runs"):
        next(by_client(features, index, held))
