"""Parameters of places, for images of another size: smooth functions of the place stay so."""

import math

import pytest
import safetensors.torch
import timm
import torch

from pfl.backbones.models.families import load_backbone
from pfl.backbones.models.positions import fit_positions
from pfl.errors import InputError


def grid(side):
    """Two smooth functions of the centers of side × side patches: (side, side, 2)."""
    at = (torch.arange(side) + 0.5) / side
    y, x = torch.meshgrid(at, at, indexing="ij")
    return torch.stack([torch.cos(2 * y), x - y], dim=2)


def sequence(side, prefix=0):
    tokens = torch.arange(2.0 * prefix).reshape(1, prefix, 2)
    return torch.cat([tokens, grid(side).reshape(1, -1, 2)], dim=1)


LAYOUTS = {
    "patches in a row": sequence,
    "after a token": lambda side: sequence(side, 1),
    "after two tokens": lambda side: sequence(side, 2),
    "without a batch": lambda side: sequence(side, 1)[0],
    "channels last": lambda side: grid(side)[None],
    "channels first": lambda side: grid(side).permute(2, 0, 1)[None],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("own", "side"), [(14, 6), (6, 14), (7, 7)])
def test_a_smooth_function_of_the_place_stays_that_function(layout, own, side):
    before, expected = LAYOUTS[layout](own), LAYOUTS[layout](side)
    shapes = {"x.pos_embed_1": tuple(expected.shape)}
    after = fit_positions({"x.pos_embed_1": before}, shapes)["x.pos_embed_1"]
    assert after.shape == expected.shape
    assert (after - expected).abs().max() < 0.12  # at the rim nothing lies outside
    assert (after - expected).abs().mean() < 0.02


def test_tensors_of_no_place_and_of_unknown_layouts_stay_as_they_are():
    state = {
        "head.weight": torch.ones(4, 9),
        "pos_embed": torch.ones(1, 16, 196, 2),  # blocks of patches
        "a.pos_embed": torch.ones(1, 12, 2),  # no square
        "b.pos_embed": torch.ones(1, 9, 2),  # another width
        "attention_biases": torch.ones(3, 10),
        "gone.pos_embed": torch.ones(1, 9, 2),
    }
    shapes = {
        "head.weight": (4, 16), "pos_embed": (1, 16, 36, 2), "a.pos_embed": (1, 16, 2),
        "b.pos_embed": (1, 16, 4), "attention_biases": (3, 16),
    }  # fmt: skip
    for name, value in fit_positions(state, shapes).items():
        assert value.shape == state[name].shape
        assert torch.equal(value, state[name])


def test_biases_of_distances_are_those_of_timm():
    table = torch.arange(169 * 2.0).reshape(169, 2)
    state = {"r.relative_position_bias_table": table, "t.attention_biases": table.T}
    shapes = {"r.relative_position_bias_table": (25, 2), "t.attention_biases": (2, 25)}
    fitted = fit_positions(state, shapes)
    expected = timm.layers.resize_rel_pos_bias_table_levit(table, (25, 2))
    torch.testing.assert_close(fitted["r.relative_position_bias_table"], expected)
    torch.testing.assert_close(fitted["t.attention_biases"], expected.T)


def saved(name, folder):
    with torch.random.fork_rng(devices=[]):  # of timm, which takes no generator
        torch.manual_seed(0)
        state = timm.create_model(name).state_dict()
    safetensors.torch.save_file(state, folder / f"{name}.safetensors")
    return state


def test_places_are_what_timm_makes_of_them_where_it_does(tmp_path):
    state = saved("test_vit", tmp_path)
    loaded = load_backbone("test_vit", tmp_path, 96).module.state_dict()
    fitted = fit_positions(state, {name: tuple(value.shape) for name, value in loaded.items()})
    assert fitted["pos_embed"].shape != state["pos_embed"].shape
    torch.testing.assert_close(fitted["pos_embed"], loaded["pos_embed"])


SMALL = ("convit_tiny", "pit_xs_224", "visformer_tiny", "cait_xxs24_224", "gcvit_xxtiny")


@pytest.mark.parametrize("name", SMALL)
def test_a_model_for_one_size_takes_another_and_says_so(name, tmp_path):
    saved(name, tmp_path)
    own, one, two = (load_backbone(name, tmp_path, side) for side in (None, 96, 96))
    x = torch.randint(0, 256, (2, 3, 96, 96), dtype=torch.uint8)
    features = one.features(x)
    assert torch.equal(features, two.features(x))
    assert features.shape == (2, own.m)
    assert torch.isfinite(features).all()
    assert (features[0] != features[1]).any()
    size = own.transform.size
    assert one.description == f"{own.description}, its places interpolated from images of {size} " \
        "px to 96 px"  # fmt: skip
    same = load_backbone(name, tmp_path, size)
    assert same.description == own.description
    for key, value in own.module.state_dict().items():
        assert torch.equal(value, same.module.state_dict()[key])


@pytest.mark.parametrize("name", ["gmlp_ti16_224", "crossvit_tiny_240", "nest_tiny"])
def test_where_places_cannot_be_interpolated_its_own_size_is_the_remedy(name, tmp_path):
    saved(name, tmp_path)
    with pytest.raises(
        InputError, match=r"its own size, .* 96 × 96: set extract\.image-size to au"
    ):
        load_backbone(name, tmp_path, 96)
    loaded = load_backbone(name, tmp_path)  # auto
    assert loaded.m > 0
    assert math.isfinite(loaded.feature_range)


def test_weights_of_another_model_are_told_as_such_at_any_size(tmp_path):
    saved("test_resnet", tmp_path)
    for side in (None, 96):
        with pytest.raises(InputError, match="do not fit backbone 'convit_tiny'"):
            load_backbone("convit_tiny", tmp_path / "test_resnet.safetensors", side)
