"""Images in memory: normalized, cropped at random, loaded at one size."""

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from PIL import Image

from pfl.data.images.images import ImageFiles, PixelArray, open_images, write_images
from pfl.data.tensors.pixels import (
    PADDING,
    PixelView,
    crop_and_flip,
    load_pixels,
    normalization,
    pixel_sums,
)
from pfl.errors import InputError
from tests.federations import generator, images


def test_normalized_pixels_have_mean_0_and_deviation_1():
    data = images(200, channels=3)
    mean, std = normalization([pixel_sums(data.stored[:50]), pixel_sums(data.stored[50:])])
    scaled = data.stored.double() / 255
    torch.testing.assert_close(mean.double(), scaled.mean((0, 1, 2)))
    torch.testing.assert_close(std.double(), scaled.std((0, 1, 2), correction=0))
    ready = PixelView(mean, std, False)(data.stored)
    assert ready.shape == (200, 3, 6, 6)
    assert ready.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(ready.mean((0, 2, 3)), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(ready.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-4, rtol=0)


def test_constant_images_can_be_normalized():
    pixels = torch.full((4, 6, 6, 1), 9, dtype=torch.uint8)
    _, std = normalization([pixel_sums(pixels)])
    assert std.item() == pytest.approx(1 / 255)


@given(st.integers(1, 5), st.integers(0, 999), st.sampled_from([(5, 5, 1), (4, 7, 3)]))
def test_a_crop_is_a_window_of_the_padded_image_or_of_its_mirror(count, seed, shape):
    g = generator(seed)
    pixels = torch.randint(1, 256, (count, *shape), generator=g, dtype=torch.uint8)
    cropped = crop_and_flip(pixels, g)
    assert cropped.shape == pixels.shape
    height, width, _ = shape
    for image, crop in zip(pixels.numpy(), cropped.numpy(), strict=True):
        padded = np.pad(image, ((PADDING, PADDING), (PADDING, PADDING), (0, 0)))
        windows = [
            padded[i : i + height, j : j + width]
            for i in range(2 * PADDING + 1)
            for j in range(2 * PADDING + 1)
        ]
        assert any(np.array_equal(crop, w) or np.array_equal(crop[:, ::-1], w) for w in windows)


def test_crops_are_spread_evenly():
    point = torch.zeros(4000, 9, 9, 1, dtype=torch.uint8)
    point[:, 4, 4] = 1
    found = crop_and_flip(point, generator()).squeeze(-1)
    rows, columns = found.amax(2).argmax(1).bincount(), found.amax(1).argmax(1).bincount()
    assert rows.shape == columns.shape == (9,)
    assert (rows.double() / 4000 - 1 / 9).abs().max() < 0.03
    assert (columns.double() / 4000 - 1 / 9).abs().max() < 0.03


def test_augmented_batches_change_and_labels_stay():
    data = images(30, augment=True)
    pixels, label = next(data.batches(30, generator()))
    order = torch.randperm(30, generator=generator())
    assert torch.equal(label, data.label[order])
    assert not torch.equal(pixels, data.view(data.stored[order]))


def stored(folder, pixels):
    write_images(folder / "images.h5", PixelArray(pixels), {})
    return open_images(folder / "images.h5")


@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_come_back_as_they_are(tmp_path, channels):
    pixels = np.random.default_rng(0).integers(0, 256, (300, 5, 5, channels), dtype=np.uint8)
    with stored(tmp_path, pixels) as opened:
        assert np.array_equal(load_pixels(opened, None).numpy(), pixels)
        assert np.array_equal(load_pixels(opened, 5).numpy(), pixels)


def test_images_are_resized_by_their_short_side_and_cut_in_the_middle(tmp_path):
    wide = np.zeros((2, 8, 16, 3), np.uint8)
    wide[:, :, 4:12, 0] = 200  # the central square
    with stored(tmp_path, wide) as opened:
        small = load_pixels(opened, 4)
    assert small.shape == (2, 4, 4, 3)
    assert (small[..., 0] > 150).all()
    assert (small[..., 1:] == 0).all()


def test_photographs_of_several_sizes_need_a_size(tmp_path):
    for name, size in (("a.png", (9, 7)), ("b.png", (6, 6))):
        Image.new("RGB", size, (10, 20, 30)).save(tmp_path / name)
    write_images(tmp_path / "images.h5", ImageFiles(tmp_path, ("a.png", "b.png")), {})
    with open_images(tmp_path / "images.h5") as opened:
        assert load_pixels(opened, 5)[:, 0, 0].tolist() == [[10, 20, 30]] * 2
        with pytest.raises(InputError, match="image-size"):
            load_pixels(opened, None)


def test_oblong_images_need_a_size(tmp_path):
    with stored(tmp_path, np.ones((2, 4, 6, 1), np.uint8)) as opened:
        with pytest.raises(InputError, match="4 × 6"):
            load_pixels(opened, None)
        assert load_pixels(opened, 4).shape == (2, 4, 4, 1)
