import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pfl.data.samples.clients import Clients, assign, read_clients, write_clients
from pfl.errors import InputError

CLIENTS, CLASSES = 4, 3
SAMPLES = st.integers(0, 60).flatmap(
    lambda n: st.tuples(
        arrays(np.int64, n, elements=st.integers(-1, CLIENTS - 1)),
        arrays(np.int64, n, elements=st.integers(0, CLASSES - 1)),
    )
)


@given(drawn=SAMPLES, seed=st.integers(0, 2**32 - 1))
def test_deal_sorts_by_client_label_and_number(drawn, seed):
    owner, label = drawn
    sample = np.random.default_rng(seed).permutation(1000)[: len(owner)]
    result = assign(owner, sample, label, CLIENTS, CLASSES)
    assert result.clients == CLIENTS
    triples = zip(owner.tolist(), label.tolist(), sample.tolist(), strict=True)
    rows = sorted(triple for triple in triples if triple[0] >= 0)
    assert result.sample.tolist() == [s for _, _, s in rows]
    for client in range(CLIENTS):
        mine = [(c, s) for k, c, s in rows if k == client]
        assert result.of(client).tolist() == [s for _, s in mine]
        assert result.sizes[client] == len(mine)
        assert result.count[client].tolist() == [
            sum(c == wanted for c, _ in mine) for wanted in range(CLASSES)
        ]


def example():
    owner = np.array([1, 0, -1, 1, 3])
    label = np.array([2, 0, 1, 0, 2])
    train = assign(owner, np.arange(5), label, CLIENTS, CLASSES)
    return Clients(train, assign(owner[:2], np.array([7, 5]), label[:2], CLIENTS, CLASSES))


def test_clients_survive_the_file_and_equal_content_is_equal_bytes(tmp_path):
    paths = [tmp_path / name for name in ("a.h5", "b.h5")]
    for path in paths:
        write_clients(path, example(), {"scheme": "iid", "seed": 0})
    assert paths[0].read_bytes() == paths[1].read_bytes()
    loaded = read_clients(paths[0])
    for part in ("train", "test"):
        for field in ("sample", "offset", "count"):
            stored, known = (getattr(getattr(x, part), field) for x in (loaded, example()))
            assert np.array_equal(stored, known)
            assert stored.dtype == known.dtype


def test_damage_is_named_with_its_dataset(tmp_path):
    path = tmp_path / "clients.h5"
    write_clients(path, example(), {})
    with h5py.File(path) as file:
        start = file["train/sample"].id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[start] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"clients\.h5 .*train/sample' is damaged"):
        read_clients(path)
