"""TIFF: every layout gives the values that were written, or a sentence that says what to write.

Files are written by tifffile, or by hand where it needs a further library, and what they mean is
computed from the numbers in them: no decoder is compared with another.
"""

import io
import itertools

import numpy as np
import pytest
import tifffile
from PIL import Image

from pfl.data.images.decoding import check, decode
from pfl.errors import InputError
from tests.tiffs import SHORT, fact, tiff

ALPHA = ("unspecified", "assocalpha", "unassalpha")
CHANNELS = {"minisblack": 1, "miniswhite": 1, "rgb": 3, "separated": 4}
HEIGHT, WIDTH = 20, 25


def is_read(bits, photometric, extra, apart, order):
    """Which layouts are read; docs/data.md says the same in words."""
    if photometric == "rgb":
        return True
    if extra == "unspecified" and apart:  # a plane that is passed over
        extra = ""
    if photometric == "separated":
        return extra == "" or (bits == 8 and extra == "unspecified")
    if photometric == "miniswhite":
        return extra == "" and (bits == 8 or order == "<")
    return extra == "" or (bits == 8 and not apart)


REMEDY = r"save it as PNG, or as TIFF with one channel of grey .* three that are marked"


def numbers(bits, channels, extra, seed=0):
    """Random levels (h, w, c), the last channel ``extra``."""
    kind = np.dtype(f"uint{bits}")
    shape = (HEIGHT, WIDTH, channels + bool(extra))
    levels = np.random.default_rng(seed).integers(0, 2**bits, shape).astype(kind)
    if extra == "assocalpha":  # colors are multiplied by it
        levels[..., :-1] = np.minimum(levels[..., :-1], levels[..., -1:])
    return levels


def meant(levels, bits, photometric, extra):
    """RGB on white, 0 … 255, by the textbook."""
    shares = levels / (2**bits - 1)
    opacity = shares[..., -1:] if extra in ALPHA[1:] else 1.0
    color = shares[..., : CHANNELS[photometric]]
    if photometric == "miniswhite":
        color = 1 - color
    if photometric == "separated":
        color = (1 - color[..., :3]) * (1 - color[..., 3:])
    premultiplied = color if extra == "assocalpha" else color * opacity
    return np.broadcast_to(255 * (premultiplied + 1 - opacity), (HEIGHT, WIDTH, 3))


def written(levels, photometric, extra, apart, order="<", **options):
    stream = io.BytesIO()
    several = levels.shape[2] > 1
    if extra:
        options["extrasamples"] = [extra]
    if several:
        options["planarconfig"] = "separate" if apart else "contig"
    array = np.moveaxis(levels, 2, 0) if several and apart else np.squeeze(levels)
    with tifffile.TiffWriter(stream, byteorder=order) as file:
        file.write(np.ascontiguousarray(array), photometric=photometric, metadata=None, **options)
    return stream.getvalue()


PACKING = ({}, {"compression": "zlib"}, {"compression": "zlib", "predictor": True})
PIECES = ({"rowsperstrip": 6}, {"tile": (16, 16)})


def tolerance(bits, photometric, extra):
    """Levels of 255: whole numbers; 16-bit colors by their upper half; opacity in 8 bits too."""
    if extra in ALPHA[1:] or photometric == "separated":
        return 1.0 if bits == 8 else 3.0
    return 0.5 if photometric != "rgb" or bits == 8 else 1.0


@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
@pytest.mark.parametrize("extra", ["", *ALPHA])
@pytest.mark.parametrize("photometric", CHANNELS)
@pytest.mark.parametrize("bits", [8, 16])
def test_every_layout_gives_what_was_written_or_is_told(bits, photometric, extra, apart):
    levels = numbers(bits, CHANNELS[photometric], extra)
    expected = meant(levels, bits, photometric, extra)
    for packing, pieces, order in itertools.product(PACKING, PIECES, "<>"):
        data = written(levels, photometric, extra, apart, order, **packing, **pieces)
        if not is_read(bits, photometric, extra, apart, order):
            with pytest.raises(InputError, match=REMEDY) as told:
                check(data, "x.tif")
            assert f"{levels.shape[2]} × {bits} bits" in str(told.value)
            continue
        check(data, "x.tif")
        off = np.abs(decode(data, "x.tif") - expected).max()
        assert off <= tolerance(bits, photometric, extra) + 1e-9, (packing, pieces, order)


@pytest.mark.parametrize("compression", ["tiff_lzw", "packbits", "tiff_adobe_deflate", "zstd"])
@pytest.mark.parametrize("predictor", [1, 2])
def test_no_compression_changes_a_value(compression, predictor):
    grey = numbers(16, 1, "")[..., 0]
    for levels in (grey, (grey >> 8).astype(np.uint8), numbers(8, 3, "")):
        stream = io.BytesIO()
        Image.fromarray(levels).save(
            stream, "TIFF", compression=compression, tiffinfo={317: predictor}
        )
        expected = np.rint(levels / 257) if levels.dtype == np.uint16 else levels
        out = decode(stream.getvalue(), "x")
        if levels.ndim == 2:
            expected = np.stack([expected] * 3, axis=2)
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 12, 16])
@pytest.mark.parametrize("white", [0, 1], ids=["white is zero", "black is zero"])
def test_grey_of_any_width_reaches_from_black_to_white(bits, white):
    levels = np.random.default_rng(0).integers(0, 2**bits, (7, 13))
    levels[0, :2] = 0, 2**bits - 1
    shares = levels / (2**bits - 1)
    data = tiff(levels, bits, white, order="<")
    if bits == 12 and not white:
        with pytest.raises(InputError, match="1 × 12 bits, unsigned, WhiteIsZero"):
            decode(data, "x.tif")
        return
    expected = np.rint(255 * (shares if white else 1 - shares))
    np.testing.assert_array_equal(decode(data, "x.tif"), np.stack([expected] * 3, axis=2))


@pytest.mark.parametrize("scale", [1, 257], ids=["of 8 bits", "of 16 bits"])
def test_a_palette_has_the_colors_that_were_meant(scale):
    colors = np.random.default_rng(0).integers(0, 256, (3, 256))
    levels = np.random.default_rng(1).integers(0, 256, (7, 13))
    data = tiff(levels, 8, 3, fact(320, SHORT, *(scale * colors).ravel().tolist()))
    np.testing.assert_array_equal(decode(data, "x.tif"), colors.T[levels])


FORMAT, PLANES = 339, 284
LEVELS = numbers(8, 3, "").astype(int)
OTHERS = {
    "three greys": (tiff(LEVELS, 16, 1), "3 × 16 bits, unsigned, BlackIsZero, channels together"),
    "five bands": (tiff(LEVELS[..., [0, 1, 2, 0, 1]], 8, 1), "5 × 8 bits"),
    "colors of 12 bits": (tiff(LEVELS, 12, 2), "3 × 12 bits, unsigned, RGB"),
    "grey of 10 bits": (tiff(LEVELS[..., 0], 10, 1), "1 × 10 bits"),
    "colors of 32 bits": (
        tiff(LEVELS, 32, 2, fact(FORMAT, SHORT, 3, 3, 3)),
        "3 × 32 bits, floating point, RGB",
    ),
    "signed grey": (tiff(LEVELS[..., 0], 8, 1, fact(FORMAT, SHORT, 2)), "1 × 8 bits, signed"),
    "half precision": (tiff(LEVELS[..., 0], 16, 1, fact(FORMAT, SHORT, 3)), "floating point"),
    "an unknown meaning": (tiff(LEVELS, 8, 99), "photometric interpretation 99"),
    "an unknown packing": (tiff(LEVELS, 8, 2, fact(259, SHORT, 34887)), "compression 34887"),
    "WebP within TIFF": (tiff(LEVELS, 8, 2, fact(259, SHORT, 50001)), "compression 50001"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_good_file_of_another_layout_is_not_called_damaged(other):
    data, layout = OTHERS[other]
    with pytest.raises(InputError, match=REMEDY) as told:
        check(data, "x.tif")
    assert layout in str(told.value)
    assert "damaged" not in str(told.value)


@pytest.mark.parametrize("other", OTHERS)
def test_a_file_of_another_layout_that_ends_early_is_called_damaged(other):
    data, _ = OTHERS[other]
    if other not in ("signed grey", "WebP within TIFF"):  # of which the directory is enough
        with pytest.raises(InputError, match="damaged, truncated or no image"):
            check(data[:-200], "x.tif")
