"""Whether a stored head solves the system that defines it, told from sums alone.

Every head W of this project solves C W = R with C symmetric positive definite:

    local     C = F_kᵀF_k + βI            R = B_k                (6), (7)
    fedhip    C = FᵀF + αF_kᵀF_k + βI     R = B + αB_k           (14)
    anchored  C = F_kᵀF_k + ρI            R = B_k + ρG
    global    C = FᵀF + βI                R = B                  (12)

with equation numbers of arXiv 2508.04470; for the anchored head see :mod:`pfl.fedhip.anchored`.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from pfl.fedhip.closed_form import Knowledge
from pfl.fedhip.moments import Moments
from pfl.fedhip.selection.candidates import Candidate, Family
from pfl.ridge.linalg import spectrum

FLOAT32 = 2.0**-23  # backward error allowed of a head stored in float32; see `backward_error`
ROUNDING = 2.0**-47  # 32 ε: what a head is off, relatively, for each unit of the condition number
FLOAT64 = 2.0**-40  # and of one in float64: 4,096 ε, where a Cholesky solution has a few


class System(NamedTuple):
    """C and R, and the head G that W is computed from as G plus a correction, if so, else zero."""

    matrix: Float[np.ndarray, "m m"]
    right: Float[np.ndarray, "m d"]
    start: Float[np.ndarray, "m d"]


def system(one: Candidate, own: Moments, server: Knowledge) -> System:
    """The system of a candidate at a client, from what the client sent and the server sent back."""
    gram, cross = own.gram_matrix(), own.cross_matrix()
    match one.family:
        case Family.FEDHIP:
            ridged = _ridged(server.gram + one.alpha * gram, one.beta)
            return System(ridged, server.cross + one.alpha * cross, server.head)
        case Family.ANCHORED:
            right = cross + one.rho * server.head
            return System(_ridged(gram, one.rho), right, server.head)
        case Family.LOCAL:
            return System(_ridged(gram, one.beta), cross, np.zeros_like(cross))
        case _:
            return global_system(server)


def global_system(server: Knowledge) -> System:
    """The system of the global head."""
    right = server.cross
    return System(_ridged(server.gram.copy(), server.beta), right, np.zeros_like(right))


def _ridged(matrix: Float[np.ndarray, "m m"], ridge: float) -> Float[np.ndarray, "m m"]:
    matrix[np.diag_indices_from(matrix)] += ridge
    return matrix


def backward_error(equations: System, head: Float[np.ndarray, "m d"]) -> float:
    """Return max over classes c of ‖C w_c − r_c‖ / (‖C‖ (‖w_c‖ + ‖g_c‖) + ‖r_c‖).

    ‖C‖ is that of Frobenius, and g_c the start, zero for global and local heads. With g_c = 0
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
    size = np.linalg.norm(head, axis=0) + np.linalg.norm(start, axis=0)
    scale = np.linalg.norm(matrix) * size + np.linalg.norm(right, axis=0)
    return float(np.max(np.divide(left, scale, out=np.zeros_like(left), where=scale > 0)))


def allowed(equations: System) -> float:
    """Backward error allowed of a head in float32: ``FLOAT32``, or ``ROUNDING``·κ(C) if more.

    With fewer samples than features heads come from an (N_k, N_k) system. They are as near the true
    ones as the condition number κ lets them be, but need not be the exact solution of a nearby C.
    """
    values = spectrum(equations.matrix).values
    return max(FLOAT32, ROUNDING * float(values[-1] / values[0])) if values[0] > 0 else np.inf
