"""One number of a file's metadata turns the picture; no other can make it unreadable."""

import io
import struct

import numpy as np
import pytest
from PIL import Image

from pfl.data.images.decoding import check, decode

PIXELS = np.random.default_rng(0).integers(0, 256, (9, 12, 3), dtype=np.uint8)
TURNED = 6
SHORT, LONG, RATIONAL, ASCII, UNDEFINED = 3, 4, 5, 2, 7


def words(*values):
    return struct.pack(f">{len(values)}I", *values)


def directory(entries):
    """A TIFF header and one directory of (tag, type, count, value), which EXIF is too."""
    entries = sorted(entries)
    head, values = struct.pack(">H", len(entries)), b""
    for tag, kind, count, value in entries:
        at = 8 + 2 + 12 * len(entries) + 4 + len(values)
        short = len(value) <= 4
        head += struct.pack(">HHI", tag, kind, count) + (
            value.ljust(4, b"\0") if short else words(at)
        )
        values += b"" if short else value
    return b"MM\0*\0\0\0\x08" + head + bytes(4) + values


def saved(kind, exif):
    stream = io.BytesIO()
    options = {"JPEG": {"quality": 95}, "WEBP": {"lossless": True}, "PNG": {}}[kind]
    Image.fromarray(PIXELS).save(stream, kind, **options)
    if kind == "JPEG":  # by hand, since Pillow corrects what it is given
        data, segment = stream.getvalue(), b"Exif\0\0" + exif
        size = struct.pack(">H", len(segment) + 2)
        return data[:2] + b"\xff\xe1" + size + segment + data[2:]
    stream = io.BytesIO()
    Image.fromarray(PIXELS).save(stream, kind, exif=exif, **options)
    return stream.getvalue()


def turned(number=TURNED, kind=SHORT):
    return (0x112, kind, 1, struct.pack(">H", number))


ODD = {
    "a short that holds 400000": (0x11C, LONG, 1, words(400_000)),
    "three of them": (0x102, LONG, 3, words(400_000, 400_000, 400_000)),
    "a rational width": (0x100, RATIONAL, 1, words(4_000_001, 3)),
    "a width of letters": (0x100, ASCII, 4, b"abc\0"),
    "samples of letters": (0x115, ASCII, 4, b"abc\0"),
    "a resolution of letters": (0x11A, ASCII, 4, b"abc\0"),
    "a resolution of 0 / 0": (0x11A, RATIONAL, 1, words(0, 0)),
    "a directory within itself": (0x8769, LONG, 1, words(8)),
    "a directory beyond the end": (0x8769, LONG, 1, words(99_999)),
    "a directory of letters": (0x8769, ASCII, 4, b"abc\0"),
    "places beyond the end": (0x8825, LONG, 1, words(99_999)),
}


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_other_fact_keeps_a_picture_from_being_turned(kind, odd):
    stored = decode(saved(kind, directory([turned(1)])), "x")
    data = saved(kind, directory([ODD[odd], turned()]))
    check(data, "x")
    np.testing.assert_array_equal(decode(data, "x"), np.rot90(stored, -1))


UNREADABLE = {
    "no directory": b"rubbish of another kind",
    "letters": directory([(0x112, ASCII, 2, b"6\0")]),
    "bytes without a meaning": directory([(0x112, UNDEFINED, 1, b"\6")]),
    "nothing over nothing": directory([(0x112, RATIONAL, 1, words(6, 0))]),
    "a ninth way": directory([turned(9)]),
}


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("exif", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_orientation_that_cannot_be_read_leaves_the_picture_as_it_is_stored(kind, exif):
    stored = decode(saved(kind, directory([turned(1)])), "x")
    data = saved(kind, exif)
    check(data, "x")
    np.testing.assert_array_equal(decode(data, "x"), stored)


def tiff(*facts):
    """A TIFF of the pixels, with ``facts`` in place of its own."""

    def built(at):
        own = {256: (SHORT, 12), 257: (SHORT, 9), 259: (SHORT, 1), 262: (SHORT, 2), 273: (LONG, at),
               277: (SHORT, 3), 278: (SHORT, 9), 279: (LONG, PIXELS.size)}  # fmt: skip
        entries = {
            tag: (tag, kind, 1, struct.pack(">H" if kind == SHORT else ">I", value))
            for tag, (kind, value) in own.items()
        }
        entries[258] = (258, SHORT, 3, struct.pack(">3H", 8, 8, 8))
        return directory((entries | {fact[0]: fact for fact in facts}).values())

    return built(len(built(0))) + PIXELS.tobytes()


@pytest.mark.parametrize("odd", [odd for odd, fact in ODD.items() if fact[0] > 279])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_tiff_is_turned_once_whatever_else_it_says(odd):
    data = tiff(ODD[odd], turned())
    check(data, "x")
    np.testing.assert_array_equal(decode(data, "x"), np.rot90(PIXELS, -1))
