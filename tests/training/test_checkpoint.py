"""A federation on disk comes back as it was, and is equal in bytes when equal in content."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl.errors import InputError
from pfl.training.checkpoint import load_federation, save_federation
from pfl.training.methods.ditto import ditto
from pfl.training.methods.fedavg import fedavg
from pfl.training.methods.fedbn import fedbn
from pfl.training.methods.local import local
from tests.federations import play, problem, same


@pytest.mark.parametrize("make", [fedavg, local, fedbn])
def test_it_comes_back_as_it_was(tmp_path, make):
    federation, _ = play(problem(make, normalized=True, fraction=0.5))
    facts = {"history": [{"loss": 0.1 + 0.2}], "method": "x", "a": None}
    save_federation(tmp_path / "state.safetensors", federation, facts)
    found, told = load_federation(tmp_path / "state.safetensors")
    assert same(found, federation)
    assert {key: told[key] for key in facts} == facts


def test_memories_come_back(tmp_path):
    federation, _ = play(problem(partial(ditto, attraction=1.0), normalized=True))
    save_federation(tmp_path / "state.safetensors", federation, {})
    found, _ = load_federation(tmp_path / "state.safetensors")
    assert same(found, federation)
    assert found.members[0].memory.keys() == federation.shared.keys()


def test_equal_content_gives_equal_bytes(tmp_path):
    facts = {"b": 1, "a": [1, 2], "c": {"d": 0.5}}
    for name in ("one", "two"):
        federation, _ = play(problem(local))
        save_federation(tmp_path / name, federation, facts)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("damage", ["missing", "cut", "noise", "other"])
def test_damage_is_told(tmp_path, damage):
    path = tmp_path / "state.safetensors"
    federation, _ = play(problem(), rounds=1)
    save_federation(path, federation, {})
    if damage == "missing":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    elif damage == "noise":
        path.write_bytes(b"\x01" * 100)
    else:
        from safetensors.torch import save_file

        save_file(dict(federation.shared), path)
    with pytest.raises(InputError, match=r"state\.safetensors is missing, damaged"):
        load_federation(path)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_any_changed_byte_is_noticed(saved, tmp_path_factory, data):
    whole = bytearray(saved)
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("changed") / "state.safetensors"
    path.write_bytes(whole)
    with pytest.raises(InputError, match="is missing, damaged"):
        load_federation(path)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "state.safetensors"
    federation, _ = play(problem(), rounds=1)
    save_federation(path, federation, {"history": [{"round": 1}]})
    return path.read_bytes()
