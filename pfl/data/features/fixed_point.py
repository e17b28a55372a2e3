"""Features ↔ fixed point: 16-bit integers times a power of two.

q = round(f / step), clipped to ±32767, step = 2^k. Dividing by a power of two is exact, so one
rounding (half to even) is all that happens. Products of two such integers are below 2^30, hence
sums of up to 2^23 of them are exact in float64, in any order: Gram matrices become exact integers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Int16

from pfl.errors import InputError

# Least and largest: exact in float32, as are their inverses, so that features scale exactly.
STEPS = (2.0**-64, 2.0**64)
UNDERFLOW = 2**7  # steps: when no feature is larger, most of the 15 bits are lost
LIMIT = 32767  # not -32768: the range is symmetric, and the product of two is below 2^30


@dataclass(frozen=True)
class Quantized:
    """Fixed-point features and what became of them on the way.

    Attributes:
        values: q; the features are q · step to half a step, except for the saturated ones.
        saturated: how many values lay beyond ±32767 · step and were clipped.
        largest: max |f| before clipping.
    """

    values: Int16[np.ndarray, "b m"]
    saturated: int
    largest: float


def step_for(feature_range: float) -> float:
    """The smallest power of two with 32767 · step ≥ ``feature_range``.

    Raises:
        InputError: the range is not a number between the largest that ``STEPS`` can hold and the
            smallest that makes use of them.
    """
    low, high = (LIMIT * step for step in STEPS)
    if not low <= feature_range <= high:
        raise InputError(
            f"The feature range is {feature_range:g}, but it must be a number between {low:.1e} "
            f"and {high:.1e}: set extract.feature-range to about the largest feature magnitude, "
            "or to auto."
        )
    # range = mantissa · 2^exponent with ½ ≤ mantissa < 1, and 32767 = (1 - 2^-15) · 2^15.
    mantissa, exponent = math.frexp(feature_range)
    return math.ldexp(1.0, exponent - 15 + (mantissa > LIMIT / 32768))


def range_for(largest: float) -> str:
    """A feature range for these features: ``largest`` and a little more, in four digits."""
    low, high = (LIMIT * step for step in STEPS)
    return f"{min(max(largest * 1.001, low * 1.001), high * 0.999):.4g}"


def underflows(largest: float, step: float) -> bool:
    """Whether features no larger than ``largest`` lose most of their precision to ``step``."""
    return 0 < largest < UNDERFLOW * step


def quantize(
    features: Float32[np.ndarray, "b m"], step: float, name: Callable[[int], str] = "row {}".format
) -> Quantized:
    """Round features to multiples of ``step``, a power of two; ``name`` is what to call a row.

    Raises:
        InputError: a value is NaN or infinite; the message names its row.
    """
    bad = ~np.isfinite(features).all(1)
    if bad.any():
        raise InputError(
            f"The backbone gives NaN or infinite features for {name(int(bad.argmax()))} (such rows "
            f"in this batch: {bad.sum()}): use extract.precision fp32, or other weights."
        )
    with np.errstate(over="ignore"):  # An infinity here is clipped and counted like the rest.
        scaled = np.rint(features * np.float32(1.0 / step))
    saturated = int(np.count_nonzero(np.abs(scaled) > LIMIT))
    values = np.clip(scaled, -LIMIT, LIMIT).astype(np.int16)
    return Quantized(values, saturated, float(np.abs(features).max(initial=0.0)))


def dequantize(values: Int16[np.ndarray, "n m"], step: float) -> Float[np.ndarray, "n m"]:
    """The features q · step in float64: exact."""
    return values.astype(np.float64) * step
