"""From the bytes of an image file to 8-bit RGB, the same for every kind of file.

What is done to each: orientation from EXIF applied; first frame of an animation; transparency laid
on white; palettes, grey, CMYK and the like converted to RGB; 16-bit grey scaled by 255 / 65535 and
rounded. Color profiles are not applied, as is usual in training vision models.
"""

import io
import re
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from pfl.data.images.orientation import upright
from pfl.data.images.png import without_metadata
from pfl.errors import InputError, of_system

# Formats that hold pixels; Pillow also knows some that run programs (EPS) or call for them.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM", "JPEG2000", "AVIF")
MAX_PIXELS = 89_478_485  # 256 MiB in 8-bit RGB
T = TypeVar("T")


def decode(data: bytes, name: str) -> UInt8[np.ndarray, "h w 3"]:
    """Decode an image file to RGB, 0 … 255; ``name`` is what messages call it.

    Raises:
        InputError: the bytes are no image, a damaged one, one with more than ``MAX_PIXELS`` pixels
            or with values of no known range.
    """
    return _read(data, name, _rgb)


def check(data: bytes, name: str) -> None:
    """Decode a file, and also compare the checksums that decoding skips (PNG has some).

    Raises:
        InputError: as :func:`decode`.
    """
    decode(data, name)
    _read(data, name, lambda image, _: image.verify())


def _read(data: bytes, name: str, use: Callable[[Image.Image, str], T]) -> T:
    """What ``use`` makes of the image; of a PNG without its metadata where those are in the way.

    Whatever Pillow raises is a sentence, but for failures of the system.
    """
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            return use(image, name)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large(name, str(error)) from error
    except Exception as error:  # Decoders raise nearly anything on damaged bytes.
        if isinstance(error, InputError) or of_system(error):
            raise
        plain = without_metadata(data)
        if len(plain) < len(data):
            return _read(plain, name, use)
        raise _damaged(name, error) from error


def _rgb(image: Image.Image, name: str) -> UInt8[np.ndarray, "h w 3"]:
    if image.width * image.height > MAX_PIXELS:
        raise _too_large(name, f"it claims {image.width} × {image.height} pixels")
    image = upright(image)
    if image.mode.startswith("I"):
        return np.repeat(_eight_bits(np.asarray(image), name)[:, :, None], 3, axis=2)
    if image.mode == "F":
        raise _unknown_range(name, "floating-point values")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return np.array(image if image.mode == "RGB" else image.convert("RGB"))


def _eight_bits(grey: np.ndarray, name: str) -> UInt8[np.ndarray, "h w"]:
    """Scale 0 … 65535 to 0 … 255 and round to the nearest."""
    wide = grey.astype(np.int64)
    if wide.min() < 0 or wide.max() > 65535:
        raise _unknown_range(name, "32-bit values outside 0 … 65535")
    return ((wide * 255 + 32767) // 65535).astype(np.uint8)


def _too_large(name: str, detail: str) -> InputError:
    return InputError(
        f"Image {name} is too large ({detail}; the limit is {MAX_PIXELS:,} pixels): "
        "scale it down or cut it into tiles first, or remove it."
    )


def _unknown_range(name: str, what: str) -> InputError:
    return InputError(
        f"Image {name} holds {what}, and nothing says which of them is white: convert it to "
        "8 or 16 bits per channel."
    )


def _damaged(name: str, error: Exception) -> InputError:
    # Pillow calls data without a file name by its object in memory, which tells nobody anything.
    message = re.sub(r"<\S+ object at 0x[0-9a-f]+>", "", str(error))
    detail = " ".join(message.split()) or type(error).__name__
    return InputError(
        f"Image {name} is damaged, truncated or no image at all ({detail}): replace or remove it. "
        f"Known formats: {', '.join(FORMATS)}."
    )
