"""Patches, masks, crops, the loss and the learning rate of masked autoencoding."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from pfl.backbones.pretraining.crops import crop, draw_crops
from pfl.backbones.pretraining.loss import masked_loss, restored, targets
from pfl.backbones.pretraining.masking import draw_visible, hidden_patches, visible_count
from pfl.backbones.pretraining.patches import patchify, unpatchify
from pfl.backbones.pretraining.schedule import learning_rate, peak_rate
from pfl.errors import InputError
from tests.nets import generator

sides = st.integers(1, 4)


@given(sides, sides, sides, st.integers(1, 3))
def test_unpatchify_undoes_patchify(rows, columns, patch, channels):
    images = torch.randn(2, channels, rows * patch, columns * patch)
    assert torch.equal(unpatchify(patchify(images, patch), patch, rows), images)


def test_patches_are_what_a_patch_embedding_sees():
    images, kernel = torch.randn(2, 3, 8, 12), torch.randn(5, 3, 4, 4)
    convolved = F.conv2d(images, kernel, stride=4).flatten(2).transpose(1, 2)
    assert torch.allclose(patchify(images, 4) @ kernel.flatten(1).T, convolved, atol=1e-5)


@given(st.integers(2, 200), st.floats(0.01, 0.99))
def test_masks_leave_exactly_the_same_number(tokens, ratio):
    expected = round(tokens * (1 - ratio))
    if not 0 < expected < tokens:
        with pytest.raises(InputError, match="mask-ratio"):
            visible_count(tokens, ratio)
        return
    assert abs(visible_count(tokens, ratio) - tokens * (1 - ratio)) <= 0.5 + 1e-9
    visible = draw_visible(3, tokens, visible_count(tokens, ratio), generator())
    hidden = hidden_patches(visible, tokens)
    assert (hidden.sum(1) == tokens - visible_count(tokens, ratio)).all()
    assert not hidden.gather(1, visible).any()
    assert (visible.diff(dim=1) > 0).all()


def test_a_quarter_of_64_patches_stays():
    assert visible_count(64, 0.75) == 16


def test_every_mask_is_as_likely():
    """Of the 10 pairs of 5 patches, each comes a tenth of the time: χ² of 9 degrees of freedom."""
    draws = 20_000
    visible = draw_visible(draws, 5, 2, generator(1))
    _, counts = np.unique(visible.numpy(), axis=0, return_counts=True)
    assert len(counts) == 10
    assert ((counts - draws / 10) ** 2 / (draws / 10)).sum() < 33.7  # exceeded once in 10⁴ seeds


def test_whole_crops_are_the_image_or_its_mirror_image():
    images = torch.randn(40, 3, 6, 6)
    maps = draw_crops(40, 1.0, generator())
    seen = crop(images, maps)
    mirrored = maps[:, 0, 0] < 0
    assert 8 < mirrored.sum() < 32
    assert torch.allclose(seen[~mirrored], images[~mirrored], atol=1e-5)
    assert torch.allclose(seen[mirrored], images[mirrored].flip(3), atol=1e-5)


@given(st.floats(0.05, 0.95), st.integers(0, 1000))
def test_crops_lie_within_the_image_and_are_as_large_as_they_should(smallest, seed):
    maps = draw_crops(50, smallest, generator(seed))
    width, height = maps[:, 0, 0].abs(), maps[:, 1, 1]
    x, y = maps[:, 0, 2], maps[:, 1, 2]
    assert (maps[:, 0, 1] == 0).all()
    assert (maps[:, 1, 0] == 0).all()
    assert ((x.abs() + width <= 1 + 1e-6) & (y.abs() + height <= 1 + 1e-6)).all()
    cut = (width > 1 - 1e-6) | (height > 1 - 1e-6)  # where a side was cut to the image's
    area, ratio = (width * height)[~cut], (width / height)[~cut]
    assert (area >= smallest - 1e-5).all()
    assert ((ratio <= 4 / 3 + 1e-4) & (ratio >= 3 / 4 - 1e-4)).all()


def test_a_crop_of_a_gradient_is_a_gradient():
    """Of an image that is its own column numbers, a crop has those of the places it shows."""
    places = (torch.arange(32) + 0.5) / 16 - 1
    images = places.expand(1, 1, 32, 32)
    maps = torch.tensor([[[0.5, 0.0, 0.25], [0.0, 0.5, 0.0]]])
    assert torch.allclose(crop(images, maps)[0, 0], (0.5 * places + 0.25).expand(32, 32), atol=1e-5)


def test_the_loss_is_zero_for_a_perfect_prediction_alone():
    patches = torch.randn(3, 6, 12)
    hidden = hidden_patches(draw_visible(3, 6, 2, generator()), 6)
    assert masked_loss(targets(patches), patches, hidden) == 0
    wrong = torch.where(hidden[:, :, None], targets(patches) + 2, targets(patches))
    assert masked_loss(wrong, patches, hidden) == pytest.approx(4)


def test_the_loss_counts_hidden_patches_alone():
    patches, predicted = torch.randn(3, 6, 12), torch.randn(3, 6, 12, requires_grad=True)
    hidden = hidden_patches(draw_visible(3, 6, 2, generator()), 6)
    masked_loss(predicted, patches, hidden).backward()
    touched = predicted.grad.abs().sum(2) > 0
    assert torch.equal(touched, hidden)


def test_targets_have_mean_0_and_variance_1_and_flat_patches_are_0():
    patches = 5 * torch.randn(2, 3, 50) + 7
    normal = targets(patches)
    assert torch.allclose(normal.mean(2), torch.zeros(2, 3), atol=1e-5)
    assert torch.allclose(normal.var(2), torch.ones(2, 3), atol=1e-4)
    assert (targets(torch.full((1, 2, 50), 3.0)) == 0).all()
    assert torch.allclose(restored(normal, patches), patches, atol=1e-4)


def test_the_learning_rate_rises_linearly_and_falls_as_half_a_cosine():
    def rate(time):
        return learning_rate(time, 0.4, 2.0, 12)

    assert [rate(0.0), rate(1.0), rate(2.0)] == [0, 0.2, 0.4]
    assert rate(7.0) == pytest.approx(0.2)
    assert rate(12.0) == pytest.approx(0, abs=1e-12)
    assert rate(4.5) - 0.2 == pytest.approx(0.2 - rate(9.5))
    assert rate(4.5) == pytest.approx(0.2 * (1 + math.cos(math.pi / 4)))
    falling = [rate(2 + t / 10) for t in range(100)]
    assert falling == sorted(falling, reverse=True)
    assert learning_rate(0.0, 0.4, 0.0, 1) == 0.4


def test_the_rate_grows_with_the_batch():
    assert peak_rate(1e-3, 512) == 2 * peak_rate(1e-3, 256) == 2e-3
