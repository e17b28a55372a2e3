"""Arrays that are no images yet: whoever does what the remedy says has the pictures they meant."""

import itertools
import re

import numpy as np
import pytest

from pfl.data.images.arrays import as_pixels
from pfl.data.sources.registry import Dataset
from pfl.errors import InputError
from tests.sources import request

CODE = re.compile(r"(?:\): |; or, if .*?, )(.+?) (?:puts|converts|makes|leaves|takes) ")
RNG = np.random.default_rng(0)
N, HEIGHT, WIDTH = 40, 8, 9
MEANT = RNG.integers(0, 256, (N, HEIGHT, WIDTH, 3), dtype=np.uint8)
LABELS = np.arange(N) % 3


def followed(path, arrays, name, times=3):
    """The pixels after doing what each message says, to the letter."""
    for _ in range(times):
        np.savez(path / "data.npz", **arrays)
        try:
            return Dataset.NPZ.load(request(path / "data.npz", fraction=0.0)).images.pixels
        except InputError as error:
            if "no test samples" in str(error):  # of which these have none, and are loaded
                return as_pixels(path, name, arrays["x_train"], N)
            code = CODE.search(str(error))
            assert code, error
            arrays[name] = eval(code[1], {"np": np, **arrays})
    raise AssertionError(f"still refused after {times} remedies")


def same_pictures(pixels, meant):
    """Equal, but for pictures on their side: nobody can see from lengths which side is up."""
    turned = meant.swapaxes(1, 2)
    return any(np.array_equal(pixels, one) for one in (meant, turned))


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("order", itertools.permutations(range(4)), ids=str)
def test_axes_in_any_order_come_right(tmp_path, order, channels):
    meant = MEANT[..., np.arange(channels) % 3]
    arrays = {"x_train": meant.transpose(order), "y_train": LABELS}
    found = followed(tmp_path, arrays, "x_train")
    assert same_pictures(found, meant[..., :3])


@pytest.mark.parametrize("order", itertools.permutations(range(3)), ids=str)
def test_axes_of_grey_in_any_order_come_right(tmp_path, order):
    arrays = {"x_train": MEANT[..., 0].transpose(order), "y_train": LABELS}
    assert same_pictures(followed(tmp_path, arrays, "x_train"), MEANT[..., :1])


@pytest.mark.parametrize("side", [40, 32])
def test_the_order_of_matlab_comes_right_even_where_all_sides_are_as_many_as_images(tmp_path, side):
    meant = RNG.integers(0, 256, (N, side, side, 3), dtype=np.uint8)
    for order in ((1, 2, 3, 0), (0, 3, 1, 2)):  # MATLAB's, PyTorch's
        arrays = {"x_train": meant.transpose(order), "y_train": LABELS}
        assert np.array_equal(followed(tmp_path, arrays, "x_train"), meant)


TYPES = {
    "shares": MEANT / 255,
    "half shares": (MEANT / 255).astype(np.float32),
    "floating levels": MEANT.astype(np.float32),
    "wide levels": MEANT.astype(np.int64),
    "16 bits": MEANT.astype(np.uint16) * 257,
}


@pytest.mark.parametrize("kind", TYPES)
def test_numbers_of_another_type_come_right(tmp_path, kind):
    arrays = {"x_train": TYPES[kind], "y_train": LABELS}
    assert np.array_equal(followed(tmp_path, arrays, "x_train"), MEANT)


@pytest.mark.parametrize("kind", [bool, np.int8, np.uint16])
def test_black_and_white_come_right(tmp_path, kind):
    arrays = {"x_train": (MEANT > 99).astype(kind), "y_train": LABELS}
    assert np.array_equal(followed(tmp_path, arrays, "x_train"), 255 * (MEANT > 99))


def test_two_channels_lose_their_opacity(tmp_path):
    arrays = {"x_train": MEANT[..., :2], "y_train": LABELS}
    assert np.array_equal(followed(tmp_path, arrays, "x_train"), MEANT[..., :1])


REFUSED = {
    "13 bands": (np.zeros((N, 64, 64, 13)), r"13 channels are not supported; choose one or three"),
    "13 bands first": (np.zeros((N, 13, 64, 64)), r"np\.moveaxis\(x_train, 1, -1\)"),
    "13 bands of few pixels": (np.zeros((N, 10, 12, 13)), "13 channels are not supported"),
    "video": (np.zeros((N, 5, 8, 8, 3)), r"one frame or slice of each, such as x_train\[:, 0\]"),
    "flat": (np.zeros((N, 192)), r"transpose\(0, 2, 3, 1\) where each channel comes as a whole"),
    "other counts": (np.zeros((12, 8, 9, 4)), "none of its axes is as long as the 40 labels"),
    "negative": (np.zeros((N, 8, 9, 3), int) - 1, r"reach from -1 to -1; scale what"),
    "normalized": (np.linspace(-2, 2, N * 3).reshape(N, 1, 1, 3), r"reach from -2 to 2; scale"),
    "12 bits": (np.full((N, 8, 9, 3), 4095), r"the highest value is 4095\), multiply by 255 / wh"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_only_the_user_can_know_is_asked_for(tmp_path, case):
    x, message = REFUSED[case]
    x = x if x.any() else x.astype(np.uint8)
    np.savez(tmp_path / "data.npz", x_train=x, y_train=LABELS)
    with pytest.raises(InputError, match=message):
        Dataset.NPZ.load(request(tmp_path / "data.npz"))


def test_no_remedy_is_a_reshape_of_four_axes(tmp_path):
    for order in itertools.permutations(range(4)):
        np.savez(tmp_path / "data.npz", x_train=MEANT.transpose(order), y_train=LABELS)
        try:
            Dataset.NPZ.load(request(tmp_path / "data.npz"))
        except InputError as error:
            assert ".reshape(" not in str(error)
