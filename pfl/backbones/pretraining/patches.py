"""Images as sequences of square patches, and back.

A patch is a vector in the order (channel, row, column), that of a convolution's kernel: so a
vision transformer's patch embedding, a convolution whose stride is its kernel, is a product of
patches with the kernel as a matrix.
"""

from jaxtyping import Shaped
from torch import Tensor


def patchify(images: Shaped[Tensor, "b c h w"], patch: int) -> Shaped[Tensor, "b l d"]:
    """The l = (h/p)·(w/p) patches of each image, row by row; d = c·p².

    ``h`` and ``w`` are multiples of the patch's side p = ``patch``.
    """
    count, channels, height, width = images.shape
    rows, columns = height // patch, width // patch
    cut = images.reshape(count, channels, rows, patch, columns, patch)
    return cut.permute(0, 2, 4, 1, 3, 5).reshape(count, rows * columns, channels * patch**2)


def unpatchify(
    patches: Shaped[Tensor, "b l d"], patch: int, rows: int
) -> Shaped[Tensor, "b c h w"]:
    """The images of :func:`patchify`, its inverse; ``rows`` = h/p."""
    count, tokens, size = patches.shape
    channels, columns = size // patch**2, tokens // rows
    laid = patches.reshape(count, rows, columns, channels, patch, patch)
    return laid.permute(0, 3, 1, 4, 2, 5).reshape(count, channels, rows * patch, columns * patch)
