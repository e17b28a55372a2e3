"""One number of a file's metadata turns the picture; no other can make it unreadable."""

import io
import struct

import numpy as np
import pytest
from PIL import Image

from pfl.data.images.decoding import check, decode
from tests.tiffs import ASCII, LONG, RATIONAL, SHORT, UNDEFINED, directory, fact, tiff

PIXELS = np.random.default_rng(0).integers(0, 256, (9, 12, 3), dtype=np.uint8)
TURNED, RGB = 6, 2


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


def turned(number=TURNED):
    return fact(0x112, SHORT, number)


ODD = {
    "a short that holds 400000": fact(0x11C, LONG, 400_000),
    "three of them": fact(0x102, LONG, 400_000, 400_000, 400_000),
    "a rational width": fact(0x100, RATIONAL, 4_000_001, 3),
    "a width of letters": fact(0x100, ASCII, b"abc\0"),
    "samples of letters": fact(0x115, ASCII, b"abc\0"),
    "a resolution of letters": fact(0x11A, ASCII, b"abc\0"),
    "a resolution of 0 / 0": fact(0x11A, RATIONAL, 0, 0),
    "a directory within itself": fact(0x8769, LONG, 8),
    "a directory beyond the end": fact(0x8769, LONG, 99_999),
    "a directory of letters": fact(0x8769, ASCII, b"abc\0"),
    "places beyond the end": fact(0x8825, LONG, 99_999),
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
    "letters": directory([fact(0x112, ASCII, b"6\0")]),
    "bytes without a meaning": directory([fact(0x112, UNDEFINED, b"\6")]),
    "nothing over nothing": directory([fact(0x112, RATIONAL, 6, 0)]),
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


@pytest.mark.parametrize("odd", [odd for odd, (tag, *_) in ODD.items() if tag > 284])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_tiff_is_turned_once_whatever_else_it_says(odd):
    data = tiff(PIXELS, 8, RGB, ODD[odd], turned())
    check(data, "x")
    np.testing.assert_array_equal(decode(data, "x"), np.rot90(PIXELS, -1))
