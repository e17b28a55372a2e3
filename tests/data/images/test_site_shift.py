"""Feature skew: what each kind of change does to a picture, and what it leaves alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pfl.data.images.images import ImageFiles, PixelArray, Sites, open_images, write_images
from pfl.data.images.site_shift import STAINS, Kind, Skew

CHANGES = [kind for kind in Kind if kind is not Kind.NONE]
pictures = arrays(np.uint8, st.tuples(st.integers(2, 12), st.integers(2, 12), st.just(3)))


def smooth(side=24, seed=0):
    """A picture of a few soft colors, in mid-range so that little is clipped."""
    coarse = np.random.default_rng(seed).integers(60, 190, (3, 3, 3))
    return np.kron(coarse, np.ones((side // 3, side // 3, 1))).astype(np.uint8)


@pytest.mark.parametrize("kind", CHANGES)
@settings(deadline=None, max_examples=30)
@given(picture=pictures, strength=st.floats(0, 10), site=st.integers(0, 3))
def test_a_change_keeps_the_size_is_repeatable_and_leaves_its_input_alone(
    kind, picture, strength, site
):
    skew, before = Skew(kind, strength, 4, 1), picture.copy()
    once = skew.change(picture, site)
    assert once.shape == picture.shape and once.dtype == np.uint8
    np.testing.assert_array_equal(once, skew.change(picture, site))
    np.testing.assert_array_equal(picture, before)


@pytest.mark.parametrize("kind", list(Kind))
@given(picture=pictures)
def test_site_0_and_strength_0_change_nothing(kind, picture):
    np.testing.assert_array_equal(Skew(kind, 1.0, 4, 1).change(picture, 0), picture)
    np.testing.assert_array_equal(Skew(kind, 0.0, 4, 1).change(picture, 3), picture)


@pytest.mark.parametrize("kind", CHANGES)
def test_sites_differ_from_each_other_more_with_strength(kind):
    picture = smooth()
    seen = [Skew(kind, 1.0, 3, 5).change(picture, site) for site in range(3)]
    assert all((seen[i] != seen[j]).any() for i, j in [(0, 1), (0, 2), (1, 2)])
    far, near = (
        np.abs(Skew(kind, s, 3, 5).change(picture, 2).astype(int) - picture).mean()
        for s in (1.0, 0.4)
    )
    assert far > near > 0


def test_a_quarter_turn_at_strength_one_is_the_last_sites():
    picture = smooth()
    turned = Skew(Kind.ROTATION, 1.0, 3, 0).change(picture, 2)
    np.testing.assert_array_equal(turned, np.rot90(picture))


def test_blur_keeps_the_mean_and_lessens_the_contrast():
    picture = smooth()
    blurred = Skew(Kind.BLUR, 1.0, 2, 0).change(picture, 1)
    assert abs(blurred.mean() - picture.mean()) < 3
    assert blurred.std() < picture.std()


def test_colors_are_multiplied_by_the_factors_of_the_site():
    skew, grey = Skew(Kind.COLOR, 1.0, 4, 3), np.full((2, 2, 3), 100, np.uint8)
    np.testing.assert_allclose(skew.change(grey, 2)[0, 0], 100 * skew.factors(2), atol=0.5)
    assert (np.abs(np.log(skew.factors(2))) <= 0.5).all()


def test_stains_change_in_amount_not_in_kind():
    """A pixel of pure hematoxylin stays on the line of hematoxylin's optical densities."""
    skew = Skew(Kind.STAIN, 1.0, 4, 3)
    pure = np.rint(256 * np.exp(-0.8 * STAINS[0]) - 1).astype(np.uint8)[None, None]
    changed = skew.change(np.tile(pure, (2, 2, 1)), 1)[0, 0]
    density = -np.log((changed + 1.0) / 256)
    expected = 0.8 * skew.factors(1)[0] * STAINS[0]
    np.testing.assert_allclose(density, expected, atol=0.01)


@pytest.mark.parametrize("layout", ["pixels", "encoded"])
def test_readers_see_each_image_as_its_site_takes_it(tmp_path, layout):
    from PIL import Image

    plain = np.stack([smooth(seed=seed) for seed in range(4)])
    source = PixelArray(plain)
    if layout == "encoded":
        for number, picture in enumerate(plain):
            Image.fromarray(picture).save(tmp_path / f"{number}.png")
        source = ImageFiles(tmp_path, tuple(f"{number}.png" for number in range(4)))
    skew, site = Skew(Kind.STAIN, 1.0, 3, 7), np.array([0, 2, 1, 2])
    write_images(tmp_path / "images.h5", source, {}, Sites(site, skew))
    with open_images(tmp_path / "images.h5") as images:
        assert images.decoded
        for number, seen in enumerate(images.rgb(1, 4), start=1):
            expected = skew.change(plain[number], int(site[number]))
            np.testing.assert_array_equal(seen, expected)


def test_images_without_sites_are_stored_as_before(tmp_path):
    source = PixelArray(smooth()[None])
    write_images(tmp_path / "a.h5", source, {})
    with open_images(tmp_path / "a.h5") as images:
        assert not images.decoded
        np.testing.assert_array_equal(images.rgb(0, 1), source.pixels)
