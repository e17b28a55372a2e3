"""Which way up a picture is: one number of its metadata, and nothing else of them.

Cameras and editors write dozens of other facts beside it, many against the standard. What they say
changes no pixel, so that no mistake in them may cost one: they are neither checked nor kept.
"""

from typing import Any

from PIL import ExifTags, Image

from pfl.errors import of_system

# What undoes each orientation of the EXIF standard; 1 is upright, and other numbers mean nothing.
UNDOING = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def upright(image: Image.Image) -> Image.Image:
    """The picture as its orientation has it; as it is stored where that cannot be read."""
    image.load()  # A TIFF is turned here, and then has no orientation any more.
    number = _orientation(image)
    method = UNDOING.get(number) if isinstance(number, int) else None
    return image if method is None else image.transpose(method)


def _orientation(image: Image.Image) -> Any:
    """The number, or whatever stands in its place."""
    try:
        return image.getexif().get(ExifTags.Base.Orientation)
    except Exception as error:  # Metadata are damaged as pixels are, and matter less.
        if of_system(error):
            raise
        return None
