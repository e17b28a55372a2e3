"""No file that is read can run a program: a pickle in each kind of file, and one that would run."""

import json
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest
import torch

from pfl.backbones.models.weights import read_state
from pfl.cli.inspection.trained import describe_trained
from pfl.data.sources.registry import Dataset
from pfl.errors import InputError
from pfl.training.checkpoint import load_federation
from tests.sources import request

X, Y = np.zeros((12, 2, 2, 3), np.uint8), np.arange(12) % 3


class Attack:
    """Makes a folder when it is unpickled."""

    def __init__(self, place):
        self.place = str(place)

    def __reduce__(self):
        return os.mkdir, (self.place,)


@pytest.fixture
def attack(tmp_path):
    """The attack; it works where a reader unpickles, and no reader here may have."""
    done = tmp_path / "attacked"
    pickle.loads(pickle.dumps(Attack(done)))
    done.rmdir()  # else this test would show nothing
    yield Attack(done)
    assert not done.exists()


@pytest.mark.parametrize("name", ["x_train", "y_train", "classes", "group_train"])
def test_objects_in_an_npz(tmp_path, attack, name):
    np.savez(tmp_path / "a.npz", **{"x_train": X, "y_train": Y, name: np.array([attack] * 12)})
    with pytest.raises(InputError, match=f"'{name}' cannot be read .*Python objects could run"):
        Dataset.NPZ.load(request(tmp_path / "a.npz"))


def test_a_pickle_called_npz(tmp_path, attack):
    (tmp_path / "a.npz").write_bytes(pickle.dumps(attack))
    with pytest.raises(InputError, match=r"no \.npz file"):
        Dataset.NPZ.load(request(tmp_path / "a.npz"))


def test_objects_in_an_array_that_is_not_used(tmp_path, attack):
    np.savez(tmp_path / "a.npz", x_train=X, y_train=Y, notes=np.array([attack]))
    assert len(Dataset.NPZ.load(request(tmp_path / "a.npz")).images) == 12


def old_torch(path, attack):
    torch.save({"a": torch.zeros(2), "b": attack}, path, _use_new_zipfile_serialization=False)


def in_zip(path, attack):
    """A PyTorch archive whose pickle is ours."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a/data.pkl", pickle.dumps(attack, protocol=2))
        file.writestr("a/version", "3\n")
        file.writestr("a/byteorder", "little")


WEIGHTS = {
    "in PyTorch's format": lambda path, attack: torch.save({"a": attack}, path),
    "in PyTorch's old format": old_torch,
    "as PyTorch's pickle": in_zip,
    "bare": lambda path, attack: path.write_bytes(pickle.dumps(attack)),
}


@pytest.mark.parametrize("suffix", [".pth", ".pt", ".safetensors"])
@pytest.mark.parametrize("kind", WEIGHTS)
def test_weights(tmp_path, attack, kind, suffix):
    path = tmp_path / f"weights{suffix}"
    WEIGHTS[kind](path, attack)
    with pytest.raises(InputError, match="cannot be read as weights"):
        read_state(path)


@pytest.mark.parametrize("kind", WEIGHTS)
def test_models_of_a_trained_method(tmp_path, attack, kind):
    path = tmp_path / "models.safetensors"
    WEIGHTS[kind](path, attack)
    for read in (load_federation, describe_trained):
        with pytest.raises(InputError, match="damaged"):
            read(path)


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(shape, offsets, dtype="F32"):
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


def facts(value):
    """A file whose metadata are this text."""
    return safetensors({"__metadata__": {"pfl": value}})


LIES = {
    "no header": b"",
    "a header of exabytes": struct.pack("<Q", 2**60) + b"{}",
    "a header that is not JSON": safetensors(b"{{{{"),
    "nested brackets": safetensors(b"[" * 10**5),
    "more numbers than bytes": safetensors(tensor([10**12], [0, 4]), bytes(4)),
    "numbers beyond the end": safetensors(tensor([10**9], [0, 4 * 10**9]), bytes(4)),
    "numbers before the beginning": safetensors(tensor([1], [-4, 0]), bytes(4)),
    "a shape beyond 64 bits": safetensors(tensor([2**62, 2**62], [0, 4]), bytes(4)),
    "an unknown type": safetensors(tensor([1], [0, 4], "PICKLE"), bytes(4)),
    "no facts": safetensors(tensor([1], [0, 4]), bytes(4)),
    "facts that are a number": facts("3"),
    "facts that are a list": facts("[1]"),
    "facts in nested brackets": facts("[" * 10**5),
    "facts of other types": facts('{"sha256": 3, "last": 7, "round": "x"}'),
    "facts without clients": facts('{"sha256": "", "round": 1}'),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("read", [load_federation, describe_trained])
def test_models_that_lie(tmp_path, lie, read):
    path = tmp_path / "models.safetensors"
    path.write_bytes(LIES[lie])
    with pytest.raises(InputError, match=r"models\.safetensors is .*damaged"):
        read(path)


@pytest.mark.parametrize("lie", [lie for lie in LIES if "facts" not in lie])
def test_weights_that_lie(tmp_path, lie):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(LIES[lie])
    with pytest.raises(InputError, match="cannot be read as weights"):
        read_state(path)
