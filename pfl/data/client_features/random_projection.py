"""Random projections of fixed-point features by signs: exact, so that every machine agrees.

With W of entries ±1, W q is a sum of integers. In float32 a sum of at most 512 int16 numbers stays
below 2²⁴, so a matrix product over 512 columns is exact integer arithmetic whatever its order,
blocking or threads; such parts are added in float64. One division by a power of two, one rounding
and one saturation follow, all of them elementwise: the mapped rows depend on nothing but the rows
and the seed. They are int16 again, and everything after stays exact.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int16

from pfl.data.features.fixed_point import LIMIT

EXACT_COLUMNS = 2**24 // 2**15
BLOCK_ROWS = 1024


@dataclass(frozen=True)
class SignMap:
    """q ↦ round(W q / 2^shift), saturated at ±32767; negative values become 0 if ``rectified``.

    Attributes:
        signs: Wᵀ, entries ±1.
        shift: binary places that are rounded away.
        rectified: whether the ReLU is taken.
        step: what one unit of the result stands for, a power of two.
    """

    signs: Float32[np.ndarray, "m p"]
    shift: int
    rectified: bool
    step: float

    @property
    def m(self) -> int:
        """Features per sample of the result."""
        return self.signs.shape[1]

    def __call__(self, rows: Int16[np.ndarray, "n m"]) -> tuple[Int16[np.ndarray, "n p"], int]:
        """The mapped rows, and how many values saturated."""
        mapped, saturated = np.empty((len(rows), self.m), np.int16), 0
        for start in range(0, len(rows), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            values = self._product(rows[block])
            saturated += int(np.count_nonzero(np.abs(values) > LIMIT))
            mapped[block] = np.clip(values, -LIMIT, LIMIT)
        return mapped, saturated

    def _product(self, rows: Int16[np.ndarray, "b m"]) -> np.ndarray:
        values = np.zeros((len(rows), self.m))
        for start in range(0, len(self.signs), EXACT_COLUMNS):
            part = slice(start, start + EXACT_COLUMNS)
            values += rows[:, part].astype(np.float32) @ self.signs[part]
        if self.rectified:
            np.maximum(values, 0.0, out=values)
        values *= 2.0**-self.shift
        return np.rint(values, out=values)


def projection(m: int, step: float, size: int, seed: int) -> SignMap:
    """F' = F Wᵀ/√p to p = ``size`` directions: lengths and angles on average as before [1].

    The factor is made of powers of two, so that ‖F'‖² is ‖F‖² on average to a factor of at most 2.

    Notes:
        [1] D. Achlioptas, "Database-friendly random projections", J. Comput. Syst. Sci. 66 (2003).

        Entries of W q are about ‖q‖ in size, √m times an entry of q. Dividing by 2^s, the power of
        two next above √m, keeps them below the largest entry's size unless a row's signs agree
        with those of W far beyond chance. The step becomes step · 2^t, t = round(s − log₂√p).
    """
    shift = _half_log2(m)
    wider = round(shift - np.log2(size) / 2)
    return SignMap(_signs(m, size, seed, 0), shift, False, step * 2.0**wider)


def lift(m: int, size: int, seed: int) -> SignMap:
    """F' = ReLU(F Wᵀ) to L = ``size`` random features, in a unit in which ‖F'‖ ≤ 1 for each sample.

    Notes:
        Entries are at most 32767 steps, so the step 2^-(15 + ⌈log₂√L⌉) gives ‖F'‖ ≤ 1 whatever the
        samples. The largest eigenvalue of F'ᵀF' is then at most N, and with a ridge β the condition
        number at most 1 + N/β, even where some random features are 0 for all samples. So a β as
        small as 1e-6 is not lost in float64. Dividing by 2^s is explained at :func:`projection`.
    """
    step = 2.0 ** -(15 + _half_log2(size))
    return SignMap(_signs(m, size, seed, 1), _half_log2(m), True, step)


def _half_log2(size: int) -> int:
    """⌈log₂√size⌉, exactly: the least s with 4^s ≥ ``size``."""
    return ((size - 1).bit_length() + 1) // 2


def _signs(m: int, size: int, seed: int, purpose: int) -> Float32[np.ndarray, "m p"]:
    """Random signs from the generator's raw bits, which NumPy promises never to change."""
    source = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(purpose,)))
    words = source.random_raw(-(-m * size // 64)).astype("<u8")
    bits = np.unpackbits(words.view(np.uint8), count=m * size).reshape(m, size)
    return 1 - 2 * bits.astype(np.float32)
