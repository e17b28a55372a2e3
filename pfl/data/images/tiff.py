"""TIFF: which layouts are read, what the numbers of one mean, and what to call one that is not.

A TIFF file may hold numbers of any size, of any meaning and in any order. Pillow reads some of
these layouts, and a few of them wrongly; tests compare every one with what was written.

Source: TIFF revision 6.0, Adobe 1992, sections 8 and 18 (tags), and libtiff's for later tags.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image, ImagePalette, TiffImagePlugin
from PIL.TiffImagePlugin import ImageFileDirectory_v2, TiffImageFile

from pfl.errors import InputError, of_system

# Pillow's own reader of uncompressed files takes planes of 16 bits for 8; libtiff's does not.
TiffImagePlugin.READ_LIBTIFF = True

WIDTH, LENGTH, BITS, COMPRESSION, PHOTOMETRIC = 256, 257, 258, 259, 262
SAMPLES, PLANAR, COLORMAP, SAMPLE_FORMAT = 277, 284, 320, 339
PIECES = ((273, 279), (324, 325))  # where strips, or tiles, begin, and how long they are
WHITE_IS_ZERO, SIGNED, APART, WEBP = 0, 2, 2, 50001
MEANINGS = {0: "WhiteIsZero", 1: "BlackIsZero", 2: "RGB", 3: "palette", 5: "CMYK", 6: "YCbCr",
            8: "CIELab", 9: "ICCLab"}  # fmt: skip
NUMBERS = {1: "unsigned", 2: "signed", 3: "floating point"}
REMEDY = (
    "save it as PNG, or as TIFF with one channel of grey (BlackIsZero) or three that are marked as "
    "RGB, unsigned and of 8 or 16 bits each"
)


def check_layout(image: Image.Image, name: str) -> None:
    """Refuse what Pillow would read, but wrongly.

    Raises:
        InputError: the image is such a TIFF.
    """
    if not isinstance(image, TiffImageFile):
        return
    tags = image.tag_v2
    wrong = (
        (image.mode in ("LA", "La", "PA") and tags.get(PLANAR) == APART)
        or (_first(tags, BITS, 1) == 8 and _first(tags, SAMPLE_FORMAT, 1) == SIGNED)
        or tags.get(COMPRESSION) == WEBP
    )
    if wrong:
        raise unread(name, _layout(tags))


def widen_palette(image: Image.Image) -> None:
    """Take a palette for one of 8 bits where nothing in it would be brighter than 1 of 255."""
    if isinstance(image, TiffImageFile) and image.mode in ("P", "PA"):
        colors = image.tag_v2[COLORMAP]
        if max(colors) < 256:
            image.palette = ImagePalette.raw("RGB;L", bytes(colors))


def levels(image: Image.Image) -> tuple[int, int]:
    """The numbers that are black and white in a grey image of more than 8 bits."""
    if not isinstance(image, TiffImageFile):
        return 0, 65535
    highest = 4095 if _first(image.tag_v2, BITS, 1) == 12 else 65535
    inverted = image.tag_v2.get(PHOTOMETRIC) == WHITE_IS_ZERO
    return (highest, 0) if inverted else (0, highest)


def unread_layout(data: bytes) -> str:
    """The layout of a whole TIFF file; empty where it is none, or not whole."""
    if not data.startswith(tuple(TiffImagePlugin.PREFIXES)):
        return ""
    try:
        tags = ImageFileDirectory_v2(data[: 16 if b"\x2b" in data[2:4] else 8])
        stream = io.BytesIO(data)
        stream.seek(tags.next)
        tags.load(stream)
        return _layout(tags) if _whole(tags, len(data)) else ""
    except Exception as error:  # Pillow raises nearly anything on damaged bytes.
        if of_system(error):
            raise
        return ""


def unread(name: str, layout: str) -> InputError:
    """What to say of an image in such a layout."""
    return InputError(f"Image {name} is a TIFF of a kind that is not read, {layout}: {REMEDY}.")


def _whole(tags: Mapping[int, Any], size: int) -> bool:
    """Whether the directory has what it needs, and the file all pieces that it lists."""
    for starts, lengths in PIECES:
        if starts in tags and lengths in tags and WIDTH in tags and LENGTH in tags:
            pairs = zip(_all(tags, starts), _all(tags, lengths), strict=True)
            return all(start + length <= size for start, length in pairs)
    return False


def _layout(tags: Mapping[int, Any]) -> str:
    meaning = _first(tags, PHOTOMETRIC, WHITE_IS_ZERO)
    numbers = _first(tags, SAMPLE_FORMAT, 1)
    apart = "each channel apart" if tags.get(PLANAR) == APART else "channels together"
    return (
        f"{tags.get(SAMPLES, 1)} × {_first(tags, BITS, 1)} bits, "
        f"{NUMBERS.get(numbers, f'sample format {numbers}')}, "
        f"{MEANINGS.get(meaning, f'photometric interpretation {meaning}')}, {apart}, "
        f"compression {tags.get(COMPRESSION, 1)}"
    )


def _all(tags: Mapping[int, Any], tag: int) -> Sequence[Any]:
    value = tags[tag]
    return value if isinstance(value, tuple) else (value,)


def _first(tags: Mapping[int, Any], tag: int, default: int) -> Any:
    return _all(tags, tag)[0] if tag in tags else default
