"""Tensors in a file are what was stored, or refused."""

import pytest
import torch

from pfl.artifacts import tensors
from pfl.artifacts.tensors import load_tensors, save_tensors

OLD, NEW = {"w": torch.zeros(3)}, {"w": torch.ones(3)}


def test_tensors_and_facts_come_back(tmp_path):
    save_tensors(tmp_path / "t", NEW, {"round": 3})
    loaded, facts = load_tensors(tmp_path / "t")
    assert torch.equal(loaded["w"], NEW["w"])
    assert facts == {"round": 3}


def test_a_changed_number_is_refused(tmp_path):
    save_tensors(tmp_path / "t", NEW, {})
    content = bytearray((tmp_path / "t").read_bytes())
    content[-1] ^= 1
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(ValueError, match="was changed after it was written"):
        load_tensors(tmp_path / "t")


def test_a_file_that_is_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    """Header and numbers are then of two files, and their hash is of neither."""
    path, sha256 = tmp_path / "t", tensors._sha256
    save_tensors(path, OLD, {"round": 1})

    def torn(facts, values):
        monkeypatch.setattr(tensors, "_sha256", sha256)
        save_tensors(path, NEW, {"round": 2})
        return "of neither"

    monkeypatch.setattr(tensors, "_sha256", torn)
    loaded, facts = load_tensors(path)
    assert torch.equal(loaded["w"], NEW["w"])
    assert facts == {"round": 2}
