"""TIFF files by hand: a directory of any tags, which EXIF is too, and numbers of any width."""

import struct

import numpy as np

SHORT, LONG, RATIONAL, ASCII, UNDEFINED = 3, 4, 5, 2, 7
WIDTHS = {SHORT: "H", LONG: "I", RATIONAL: "I"}


def fact(tag, kind, *values):
    """An entry of a directory: tag, type, and one text or any numbers."""
    return tag, kind, values


def directory(entries, order=">"):
    """A TIFF header and its one directory, with the highest byte first or ("<") last."""
    entries = sorted(entries)
    head, rest = struct.pack(f"{order}H", len(entries)), b""
    for tag, kind, values in entries:
        at = 8 + 2 + 12 * len(entries) + 4 + len(rest)
        value, count = values[0], len(values) // (2 if kind == RATIONAL else 1)
        if isinstance(value, bytes):
            count = len(value)
        else:
            value = struct.pack(f"{order}{len(values)}{WIDTHS[kind]}", *values)
        short = len(value) <= 4
        place = value.ljust(4, b"\0") if short else struct.pack(f"{order}I", at)
        head += struct.pack(f"{order}HHI", tag, kind, count) + place
        rest += b"" if short else value
    start = b"MM" if order == ">" else b"II"
    return start + struct.pack(f"{order}HI", 42, 8) + head + bytes(4) + rest


def packed(levels, bits, order):
    """Rows of levels; narrow ones with the highest bit first, and filled up to whole bytes."""
    if bits in (8, 16, 32):
        return levels.astype(f"{order}u{bits // 8}").tobytes()
    shifts = np.arange(bits - 1, -1, -1)
    digits = (levels[..., None] >> shifts & 1).astype(np.uint8)
    return np.packbits(digits.reshape(len(levels), -1), axis=1).tobytes()


def tiff(levels, bits, photometric, *facts, order=">"):
    """A TIFF of (h, w) or (h, w, c) levels in one piece; ``facts`` take the place of its own."""
    height, width, samples = (*levels.shape, 1)[:3]
    data = packed(levels, bits, order)

    def built(at):
        own = [fact(256, SHORT, width), fact(257, SHORT, height),
               fact(258, SHORT, *[bits] * samples), fact(259, SHORT, 1),
               fact(262, SHORT, photometric), fact(273, LONG, at), fact(277, SHORT, samples),
               fact(278, SHORT, height), fact(279, LONG, len(data))]  # fmt: skip
        return directory({entry[0]: entry for entry in (*own, *facts)}.values(), order)

    return built(len(built(0))) + data
