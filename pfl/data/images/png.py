"""What decoding needs to know of a PNG file beside what Pillow tells.

Source: the PNG specification, third edition, W3C 2025, sections 5.3 (chunks) and 11 (their kinds).
"""

import struct

from PIL import Image

from pfl.errors import InputError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
DEPTH = 24  # where the header has the bits per channel
AROUND = 12  # bytes of a chunk around its body: length, kind, checksum
# Of the chunks that a reader may pass over, those that change how the picture looks here.
SEEN = (b"tRNS", b"eXIf")


def without_metadata(data: bytes) -> bytes:
    """A PNG file without its texts, color profile, animation and the like; others as they are.

    These change no pixel of the first picture, so that one that is too long, or damaged, does not
    make the picture unusable.
    """
    if not data.startswith(SIGNATURE):
        return data
    kept, at = [SIGNATURE], len(SIGNATURE)
    while at + AROUND <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + AROUND + length
        if end > len(data):
            break
        if not kind[:1].islower() or kind in SEEN:
            kept.append(data[at:end])
        at = end
    return b"".join((*kept, data[at:]))


def match_key(image: Image.Image, data: bytes, name: str) -> None:
    """Give the one transparent level or color of a PNG in the numbers that its pixels have.

    Pillow scales pixels of 2 and 4 bits to 8, and takes the upper half of 16-bit colors, but
    leaves the transparent one as the file has it.

    Raises:
        InputError: it is a color of 16 bits, of which the pixels no longer tell the lower half.
    """
    key = image.info.get("transparency")
    if image.format != "PNG" or key is None:
        return
    depth = data[DEPTH]
    if image.mode == "L" and depth < 8:
        image.info["transparency"] = key * 255 // (2**depth - 1)
    if image.mode == "RGB" and depth == 16:
        raise InputError(
            f"Image {name} has a transparent color of 16 bits per channel, which is not read: save "
            "it with 8 bits per channel, or with an alpha channel."
        )
