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
