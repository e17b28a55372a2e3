"""The 1,797 handwritten digits that scikit-learn carries: 8 × 8 grey, ten classes, no download.

Source: UCI "Optical Recognition of Handwritten Digits" (Alpaydin & Kaynak, 1998), test part.
"""

import numpy as np

from pfl.data.images.images import PixelArray
from pfl.data.samples.index import Index
from pfl.data.sources.samples import NO_GROUPS, Samples, SourceRequest, assemble

LEVELS = 16  # a pixel counts the dark dots, 0 … 16, of a 4 × 4 block


def load(request: SourceRequest) -> Samples:
    """Load the digits, 0 … 16 scaled to 0 … 255, with a stratified test cut."""
    # Imported here because no other source needs it.
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = np.rint(digits.images * (255 / LEVELS)).astype(np.uint8)[..., None]
    label = digits.target.astype(np.int64)
    nothing = np.zeros_like(label)
    classes = tuple(str(digit) for digit in range(10))
    index = Index(label, nothing, nothing, classes, NO_GROUPS)
    return assemble(PixelArray(pixels), index, request, cut=True)
