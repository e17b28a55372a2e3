"""From the bytes of an image file to 8-bit RGB, the same for every kind of file.

What is done to each: orientation from EXIF applied; first frame of an animation; transparency laid
on white; palettes, grey, CMYK and the like converted to RGB; 16-bit grey scaled by 255 / 65535 and
rounded; of 16-bit colors the upper 8 bits. Color profiles are not applied, as is usual in training
vision models.
"""

import io
import re
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from jaxtyping import UInt8
from PIL import Image, UnidentifiedImageError

from pfl.data.images.orientation import upright
from pfl.data.images.png import match_key, without_metadata
from pfl.data.images.tiff import check_layout, levels, unread, unread_layout, widen_palette
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
    return _read(data, name, lambda image: _rgb(image, data, name))


def check(data: bytes, name: str) -> None:
    """Decode a file, and also compare the checksums that decoding skips (PNG has some).

    Raises:
        InputError: as :func:`decode`.
    """
    decode(data, name)
    _read(data, name, lambda image: image.verify())


def _read(data: bytes, name: str, use: Callable[[Image.Image], T]) -> T:
    """What ``use`` makes of the image; of a PNG without its metadata where those are in the way.

    Whatever Pillow raises is a sentence, but for failures of the system.
    """
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            return use(image)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large(name, str(error)) from error
    except Exception as error:  # Decoders raise nearly anything on damaged bytes.
        if isinstance(error, InputError) or of_system(error):
            raise
        plain = without_metadata(data)
        if len(plain) < len(data):
            return _read(plain, name, use)
        layout = unread_layout(data) if isinstance(error, UnidentifiedImageError) else ""
        raise (unread(name, layout) if layout else _damaged(name, error)) from error


def _rgb(image: Image.Image, data: bytes, name: str) -> UInt8[np.ndarray, "h w 3"]:
    if image.width * image.height > MAX_PIXELS:
        raise _too_large(name, f"it claims {image.width} × {image.height} pixels")
    check_layout(image, name)
    widen_palette(image)
    match_key(image, data, name)
    black, white = levels(image)
    image = upright(image)
    if image.mode.startswith("I"):
        grey = _eight_bits(image, black, white, name)
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.mode == "F":
        raise _unknown_range(name, "floating-point values")
    if image.has_transparency_data:
        # Of grey, Pillow makes RGB from straight transparency alone.
        image = (image.convert("LA") if image.mode == "La" else image).convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.array(image if image.mode == "RGB" else image.convert("RGB"))


def _eight_bits(image: Image.Image, black: int, white: int, name: str) -> UInt8[np.ndarray, "h w"]:
    """Scale black … white to 0 … 255 and round to the nearest; lay a transparent level on white."""
    wide, top = np.asarray(image).astype(np.int64), max(black, white)
    if wide.min() < 0 or wide.max() > top:
        raise _unknown_range(name, f"32-bit values outside 0 … {top}")
    grey = ((abs(wide - black) * 255 + top // 2) // top).astype(np.uint8)
    grey[wide == image.info.get("transparency", -1)] = 255
    return grey


def _too_large(name: str, detail: str) -> InputError:
    return InputError(
        f"Image {name} is too large ({detail}; the limit is {MAX_PIXELS:,} pixels): "
        "scale it down or cut it into tiles first, or remove it."
    )


def _unknown_range(name: str, what: str) -> InputError:
    return InputError(
        f"Image {name} holds {what}, and nothing says which of them is white: scale what is black "
        "in these images to 0 and what is white to 255, and save it with 8 bits per channel."
    )


def _damaged(name: str, error: Exception) -> InputError:
    # Pillow calls data without a file name by its object in memory, which tells nobody anything.
    message = re.sub(r"<\S+ object at 0x[0-9a-f]+>", "", str(error))
    detail = " ".join(message.split()) or type(error).__name__
    return InputError(
        f"Image {name} is damaged, truncated or no image at all ({detail}): replace or remove it. "
        f"Known formats: {', '.join(FORMATS)}."
    )
