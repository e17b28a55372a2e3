"""Features as training data: read as they are, standardized over all clients' samples."""

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from pfl.data.features.features import open_features, write_features
from pfl.data.tensors import features
from pfl.data.tensors.features import feature_view, load_features
from tests.federations import generator


def rows(count, m=5, seed=0):
    g = generator(seed)
    return torch.randint(-32767, 32768, (count, m), generator=g).to(torch.int16)


@given(st.integers(2, 60), st.integers(0, 99), st.lists(st.integers(1, 59), max_size=4))
def test_standardized_features_have_mean_0_and_deviation_1(count, seed, cuts):
    stored = rows(count, seed=seed)
    parts = np.split(stored.numpy(), sorted(cut for cut in set(cuts) if cut < count))
    view = feature_view(torch.from_numpy(part) for part in parts)
    values = view(stored).double()
    wide = stored.double()
    expected = (wide - wide.mean(0)) / wide.std(0, correction=0)
    torch.testing.assert_close(values, expected, atol=2e-5, rtol=1e-4)


def test_the_view_does_not_depend_on_who_holds_what():
    stored = rows(50)
    one, many = feature_view([stored]), feature_view(stored.split(7))
    assert torch.equal(one.scale, many.scale)
    assert torch.equal(one.shift, many.shift)


def test_a_constant_feature_is_zero():
    view = feature_view([torch.full((9, 2), 700, dtype=torch.int16)])
    assert torch.equal(view(torch.full((3, 2), 700, dtype=torch.int16)), torch.zeros(3, 2))


def test_nothing_random_happens_to_features():
    stored, view = rows(4), feature_view([rows(9)])
    assert view.augmented(stored, generator()) is stored
    assert view.to(torch.device("meta")).scale.device.type == "meta"


@pytest.mark.parametrize("block", [3, 10, 99])
def test_features_are_loaded_as_they_are(tmp_path, monkeypatch, block):
    monkeypatch.setattr(features, "BLOCK_ROWS", block)
    stored = rows(10).numpy()
    facts = {"step": 2.0**-10, "backbone": "none", "saturated": 0}
    write_features(tmp_path / "f.h5", stored.shape, lambda start, stop: stored[start:stop], facts)
    with open_features(tmp_path / "f.h5") as opened:
        assert np.array_equal(load_features(opened).numpy(), stored)
