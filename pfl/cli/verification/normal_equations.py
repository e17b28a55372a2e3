"""How far a stored head misses the system that defines it, told from sums alone.

Every head W of this project solves C W = R with C symmetric positive definite; its family's module
in :mod:`pfl.fedhip.families` has C and R.
"""

import numpy as np
from jaxtyping import Float

from pfl.fedhip.families.family import NormalEquations
from pfl.ridge.linalg import spectrum

FLOAT32 = 2.0**-23  # backward error allowed of a head stored in float32; see `backward_error`
ROUNDING = 2.0**-47  # 32 ε: what a head is off, relatively, for each unit of the condition number
FLOAT64 = 2.0**-40  # and of one in float64: 4,096 ε, where a Cholesky solution has a few


def backward_error(equations: NormalEquations, head: Float[np.ndarray, "m d"]) -> float:
    """Return max over classes c of ‖C w_c − r_c‖ / (‖C‖ (‖w_c‖ + ‖g_c‖) + ‖r_c‖).

    ‖C‖ is that of Frobenius, and g_c the start, zero where there is none. With g_c = 0
    it is the smallest relative change of C and r_c that makes w_c exact [Rigal & Gaches 1967], up
    to the norm, and does not depend on the scale of features or of a class.

    Notes:
        A head that is G plus a correction is rounded to a part of G, however little the two leave:
        with a tiny ρ, or a huge α, nothing but rounding is left of a class that the client lacks.

        Storing W in float32 changes every entry by at most 2⁻²⁴ of it, and C w_c by at most
        2⁻²⁴ ‖C‖ ‖w_c‖. ``FLOAT32`` allows twice that: the other half is for the solution itself,
        whose error in float64 is far smaller unless the condition number is large: `allowed`.
    """
    matrix, right, start = equations
    left = np.linalg.norm(matrix @ head - right, axis=0)
    size = np.linalg.norm(head, axis=0)
    if start is not None:
        size = size + np.linalg.norm(start, axis=0)
    scale = np.linalg.norm(matrix) * size + np.linalg.norm(right, axis=0)
    return float(np.max(np.divide(left, scale, out=np.zeros_like(left), where=scale > 0)))


def allowed(equations: NormalEquations) -> float:
    """Backward error allowed of a head in float32: ``FLOAT32``, or ``ROUNDING``·κ(C) if more.

    With fewer samples than features heads come from an (N_k, N_k) system. They are as near the true
    ones as the condition number κ lets them be, but need not be the exact solution of a nearby C.
    """
    values = spectrum(equations.matrix).values
    return max(FLOAT32, ROUNDING * float(values[-1] / values[0])) if values[0] > 0 else np.inf
