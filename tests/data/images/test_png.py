"""PNG: no text, profile or animation that is damaged or too long costs a picture."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from pfl.data.images.decoding import check, decode
from pfl.data.images.png import without_metadata
from pfl.errors import InputError
from tests.tiffs import packed

PIXELS = np.random.default_rng(0).integers(0, 256, (9, 12, 3), dtype=np.uint8)
LONG = zlib.compress(bytes(5_000_000))  # more than Pillow unpacks of a text or profile
HEADER = 33  # where the first chunk after the header begins


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(*chunks, **options):
    stream = io.BytesIO()
    Image.fromarray(PIXELS).save(stream, "PNG", **options)
    data = stream.getvalue()
    return data[:HEADER] + b"".join(chunks) + data[HEADER:]


METADATA = {
    "a long text": [chunk(b"zTXt", b"a\0\0" + LONG)],
    "many texts": [chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(10**6)))] * 70,
    "long XMP": [chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + LONG)],
    "a long profile": [chunk(b"iCCP", b"a\0\0" + LONG)],
    "an unknown compression": [chunk(b"zTXt", b"a\0\7abc"), chunk(b"iCCP", b"a\0\7abc")],
    "a text with a wrong checksum": [chunk(b"tEXt", b"a\0b")[:-1] + b"!"],
    "facts that are cut": [chunk(kind, b"") for kind in (b"gAMA", b"cHRM", b"sRGB", b"pHYs")],
    "no frames": [chunk(b"acTL", b"")],
    "EXIF that is no hexadecimal": [
        chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(b"\nexif\n 4\nzz"))
    ],
}


@pytest.mark.parametrize("chunks", METADATA.values(), ids=METADATA)
def test_no_metadata_keep_the_pixels_from_being_read(chunks):
    data = png(*chunks)
    check(data, "x")
    np.testing.assert_array_equal(decode(data, "x"), PIXELS)


def test_what_turns_a_picture_stays_where_other_metadata_go():
    exif = Image.Exif()
    exif[0x112] = 6
    data = png(*METADATA["a long text"], exif=exif)
    np.testing.assert_array_equal(decode(data, "x"), np.rot90(PIXELS, -1))


@pytest.mark.parametrize("chunks", METADATA.values(), ids=METADATA)
def test_a_damaged_picture_is_refused_whatever_its_metadata(chunks):
    data = bytearray(png(*chunks))
    data[-20] ^= 1  # within the checksum of the pixels
    with pytest.raises(InputError, match="x is damaged, truncated or no image"):
        check(bytes(data), "x")


def test_only_metadata_go_and_nothing_of_a_file_that_ends_early():
    plain = png()
    assert without_metadata(png(*METADATA["many texts"])) == without_metadata(plain)
    assert without_metadata(plain) == plain
    assert without_metadata(plain[:-9]) == plain[:-9]
    assert without_metadata(b"\xff\xd8 no PNG") == b"\xff\xd8 no PNG"


# --- every combination of color, bits and transparency

PASSES = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2),
          (1, 0, 2, 1))  # fmt: skip
COLORS = {"grey": (0, 1), "RGB": (2, 3), "palette": (3, 1), "grey+alpha": (4, 2), "RGBA": (6, 4)}
BITS = {"grey": (1, 2, 4, 8, 16), "palette": (1, 2, 4, 8)}
KINDS = [(kind, bits) for kind in COLORS for bits in BITS.get(kind, (8, 16))]


def by_hand(levels, bits, color, interlaced, *chunks):
    """A PNG of (h, w, c) levels, every row unfiltered."""
    height, width = levels.shape[:2]
    parts = PASSES if interlaced else ((0, 0, 1, 1),)
    rows = b"".join(
        b"\0" + packed(row[None], bits, ">")
        for top, left, down, right in parts
        for row in levels[top::down, left::right]
    )
    header = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, interlaced)
    data = chunk(b"IDAT", zlib.compress(rows))
    return b"".join((b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", header), *chunks, data,
                     chunk(b"IEND", b"")))  # fmt: skip


def on_white(shares, opacity):
    return np.broadcast_to(255 * (shares * opacity + 1 - opacity), (*shares.shape[:2], 3))


@pytest.mark.parametrize("interlaced", [0, 1])
@pytest.mark.parametrize(("kind", "bits"), KINDS)
def test_every_kind_gives_what_was_written(kind, bits, interlaced):
    color, channels = COLORS[kind]
    top = 2**bits - 1
    levels = np.random.default_rng(0).integers(0, top + 1, (9, 13, channels))
    levels[0, 0], levels[0, 1] = 0, top
    palette = np.random.default_rng(1).integers(0, 256, (top + 1, 3), dtype=np.uint8)
    chunks = [chunk(b"PLTE", palette.tobytes())] if kind == "palette" else []
    if kind == "palette":
        expected = palette[levels[..., 0]]
    elif channels % 2:
        expected = on_white(levels / top, 1.0)
    else:
        expected = on_white(levels[..., :-1] / top, levels[..., -1:] / top)
    off = np.abs(decode(by_hand(levels, bits, color, interlaced, *chunks), "x") - expected)
    # Of 16-bit colors the upper half counts; opacity is another one.
    upper = bits == 16 and kind != "grey"
    assert off.max() <= (0.5, 1.0, 1.5)[upper + (upper and channels % 2 == 0)] + 1e-9


@pytest.mark.parametrize("interlaced", [0, 1])
@pytest.mark.parametrize("bits", BITS["grey"])
def test_a_transparent_level_is_white_and_its_neighbors_are_not(bits, interlaced):
    top = 2**bits - 1
    levels = np.random.default_rng(0).integers(0, top + 1, (9, 13, 1))
    key = top // 3
    levels[2:4, 3:5] = key
    levels[0, 0], levels[0, 1] = key + 1, key  # one level brighter is another level
    data = by_hand(levels, bits, 0, interlaced, chunk(b"tRNS", struct.pack(">H", key)))
    expected = np.rint(on_white(levels / top, 1.0 * (levels != key)))
    np.testing.assert_array_equal(decode(data, "x"), expected)


def test_a_transparent_color_of_8_bits_is_white_and_one_of_16_is_refused():
    levels = np.random.default_rng(0).integers(0, 256, (9, 13, 3))
    key = levels[2, 3]
    for bits in (8, 16):
        data = by_hand(levels, bits, 2, 0, chunk(b"tRNS", struct.pack(">3H", *key.tolist())))
        if bits == 16:
            with pytest.raises(InputError, match=r"transparent color of 16 bits.*save it with 8"):
                check(data, "x")
            continue
        out = decode(data, "x")
        assert (out[2, 3] == 255).all()
        out[2, 3] = key
        np.testing.assert_array_equal(out, levels)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_a_palette_may_be_transparent_in_parts(bits):
    rng = np.random.default_rng(0)
    colors = rng.integers(0, 256, (2**bits, 4), dtype=np.uint8)
    levels = rng.integers(0, 2**bits, (9, 13, 1))
    data = by_hand(
        levels, bits, 3, 0, chunk(b"PLTE", colors[:, :3].tobytes()),
        chunk(b"tRNS", colors[:, 3].tobytes()),
    )  # fmt: skip
    shares = colors[levels[..., 0]] / 255
    off = np.abs(decode(data, "x") - on_white(shares[..., :3], shares[..., 3:]))
    assert off.max() <= 1
