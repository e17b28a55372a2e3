"""Feature skew: every site takes its pictures in its own way, as with another camera or stain.

Data that come from one place are given the differences of several: site 0 keeps its images, each
other site changes all of its own in one way. The change is made whenever images are read, so that
one file serves every kind of image and nothing is compressed twice.

Source of the colour model of stains: A. Ruifrok, D. Johnston, "Quantification of histochemical
staining by color deconvolution" (2001); of varying them: D. Tellez et al., "Quantifying the effects
of data augmentation and stain color normalization in convolutional neural networks for
computational pathology" (2019).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image, ImageFilter

RIGHT_ANGLE = 90.0  # degrees that the last site turns its images by, at strength 1
BLUR = 1 / 16  # of the short side: the last site's standard deviation, at strength 1
SITES = 2  # this purpose's place among the streams of one seed
COLOR = 0.5  # largest logarithm of a channel's or a stain's factor, at strength 1
# Rows: optical density of hematoxylin, eosin and diaminobenzidine in red, green and blue.
STAINS = np.array([[0.650, 0.704, 0.286], [0.072, 0.990, 0.105], [0.268, 0.570, 0.776]])
STAINS = STAINS / np.linalg.norm(STAINS, axis=1, keepdims=True)

Picture = UInt8[np.ndarray, "h w 3"]


class Kind(StrEnum):
    """What differs from site to site in the pictures."""

    NONE = "none"
    STAIN = "stain"
    COLOR = "color"
    BLUR = "blur"
    ROTATION = "rotation"


@dataclass(frozen=True)
class Skew:
    """How the pictures of the sites differ.

    Attributes:
        kind: what is changed.
        strength: 0 changes nothing; 1 is strong and still recognizable.
        sites: how many there are.
        seed: of the sites' colors and stains.
    """

    kind: Kind
    strength: float
    sites: int
    seed: int

    def change(self, picture: Picture, site: int) -> Picture:
        """The picture as ``site`` takes it, of the same size."""
        if site == 0 or self.kind is Kind.NONE or self.strength == 0:
            return picture
        return _CHANGES[self.kind](self, picture, site)

    def level(self, site: int) -> float:
        """Strength times the site's place in 0 … 1, the first and the last site's."""
        return self.strength * site / max(1, self.sites - 1)

    def factors(self, site: int) -> Float[np.ndarray, " 3"]:
        """Three factors of the site's own, e^u with u uniform in ± ``COLOR`` · strength."""
        stream = np.random.SeedSequence(self.seed, spawn_key=(SITES, site))
        drawn = np.random.default_rng(stream).uniform(-COLOR, COLOR, 3)
        return np.exp(self.strength * drawn)


def _stain(skew: Skew, picture: Picture, site: int) -> Picture:
    """Stronger and weaker stains: optical densities -log I are sums of the stains' own."""
    density = -np.log((picture.reshape(-1, 3).astype(np.float64) + 1) / 256)
    amounts = np.linalg.solve(STAINS.T, density.T).T * skew.factors(site)
    return _bytes(256 * np.exp(-amounts @ STAINS) - 1).reshape(picture.shape)


def _color(skew: Skew, picture: Picture, site: int) -> Picture:
    """Another white balance: each channel times a factor."""
    return _bytes(picture * skew.factors(site))


def _blur(skew: Skew, picture: Picture, site: int) -> Picture:
    """Less sharp from site to site: a Gaussian blur."""
    radius = skew.level(site) * BLUR * min(picture.shape[:2])
    return np.asarray(Image.fromarray(picture).filter(ImageFilter.GaussianBlur(radius)))


def _rotation(skew: Skew, picture: Picture, site: int) -> Picture:
    """Turned counterclockwise, more from site to site; what comes into view is black."""
    turned = Image.fromarray(picture).rotate(
        skew.level(site) * RIGHT_ANGLE, Image.Resampling.BILINEAR
    )
    return np.asarray(turned)


def _bytes(values: Float[np.ndarray, "*shape 3"]) -> UInt8[np.ndarray, "*shape 3"]:
    return np.rint(values.clip(0, 255)).astype(np.uint8)


_CHANGES: dict[Kind, Callable[[Skew, Picture, int], Picture]] = {
    Kind.STAIN: _stain,
    Kind.COLOR: _color,
    Kind.BLUR: _blur,
    Kind.ROTATION: _rotation,
}
