"""What decoding needs to know of a PNG file beside what Pillow tells.

Source: the PNG specification, third edition, W3C 2025, sections 5.3 (chunks) and 11 (their kinds).
"""

import struct

SIGNATURE = b"\x89PNG\r\n\x1a\n"
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
