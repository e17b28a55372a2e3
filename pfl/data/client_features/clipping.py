"""Fixed-point features with a bound on their length: what differential privacy counts on.

A row longer than the bound is shrunk to it. Every value is rounded toward zero, so the bound holds
for the integers themselves, exactly, not to rounding. The bound is stated, never taken from data.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Int16

from pfl.data.features.fixed_point import LIMIT, STEPS
from pfl.errors import InputError

HAIR = 1.0 - 2.0**-50  # more than what float64 may round upward in between
BLOCK_ROWS = 1024


@dataclass(frozen=True)
class Clip:
    """q ↦ q·min(1, C/(‖q‖ step)), toward zero, in a step that is finer where C allows it.

    Attributes:
        m: features per sample.
        norm: C, in the features' units.
        finer: binary places gained: the old step is step · 2^finer.
        step: what one unit of the result stands for, a power of two.
    """

    m: int
    norm: float
    finer: int
    step: float

    def __call__(self, rows: Int16[np.ndarray, "n m"]) -> tuple[Int16[np.ndarray, "n m"], int]:
        """The clipped rows, and how many were too long."""
        clipped, shortened = np.empty_like(rows), 0
        norm = math.ldexp(self.norm / self.step, -self.finer)  # in old steps, exact
        limit, longest = norm**2 * HAIR, float(math.floor(Fraction(norm) ** 2))
        for start in range(0, len(rows), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            values = rows[block].astype(np.float64)
            squares = np.einsum("nm,nm->n", values, values)  # exact: integers below 2^53
            long = squares > longest  # exact, too: a row as long as the norm stays as it is
            values[long] *= (np.sqrt(limit / squares[long]) * HAIR)[:, None]
            clipped[block] = np.trunc(values * 2.0**self.finer)
            shortened += int(long.sum())
        return clipped, shortened


def clip(m: int, step: float, norm: float) -> Clip:
    """The clip to length ``norm`` of m features in this step.

    No value of a clipped row exceeds ``norm``: where that is small beside 32767 · step, the step is
    halved as often as int16 allows, so that shrunk rows keep their precision.

    Raises:
        InputError: the norm is too small for any step.
    """
    if norm < LIMIT * STEPS[0]:
        raise InputError(
            f"The longest features may be {norm:g}, too little for fixed point: set features.norm "
            f"to {LIMIT * STEPS[0]:.1e} or more."
        )
    finer = 0
    while norm <= LIMIT * math.ldexp(step, -finer - 1):
        finer += 1
    return Clip(m, norm, finer, math.ldexp(step, -finer))
