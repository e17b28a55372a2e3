"""Whether a stored head solves the system that defines it, told from sums alone.

Every head W of this project solves C W = R with C symmetric positive definite:

    local     C = F_kᵀF_k + βI            R = B_k                (6), (7)
    fedhip    C = FᵀF + αF_kᵀF_k + βI     R = B + αB_k           (14)
    anchored  C = F_kᵀF_k + ρI            R = B_k + ρG
    global    C = FᵀF + βI                R = B                  (12)

with equation numbers of arXiv 2508.04470; for the anchored head see :mod:`pfl.anchored`.
"""

import numpy as np
from jaxtyping import Float

from pfl.fedhip import Knowledge
from pfl.moments import Moments
from pfl.selection.candidates import Candidate, Family

FLOAT32 = 2.0**-23  # backward error allowed of a head stored in float32; see `backward_error`
FLOAT64 = 2.0**-40  # and of one in float64: 4,096 ε, where a Cholesky solution has a few

System = tuple[Float[np.ndarray, "m m"], Float[np.ndarray, "m d"]]


def system(one: Candidate, own: Moments, server: Knowledge) -> System:
    """C and R of a candidate at a client, from what the client sent and the server sent back."""
    gram, cross = own.gram_matrix(), own.cross_matrix()
    match one.family:
        case Family.FEDHIP:
            ridged = _ridged(server.gram + one.alpha * gram, one.beta)
            return ridged, server.cross + one.alpha * cross
        case Family.ANCHORED:
            return _ridged(gram, one.rho), cross + one.rho * server.head
        case Family.LOCAL:
            return _ridged(gram, one.beta), cross
        case _:
            return global_system(server)


def global_system(server: Knowledge) -> System:
    """C and R of the global head."""
    return _ridged(server.gram.copy(), server.beta), server.cross


def _ridged(matrix: Float[np.ndarray, "m m"], ridge: float) -> Float[np.ndarray, "m m"]:
    matrix[np.diag_indices_from(matrix)] += ridge
    return matrix


def backward_error(equations: System, head: Float[np.ndarray, "m d"]) -> float:
    """Return max over classes c of ‖C w_c − r_c‖ / (‖C‖ ‖w_c‖ + ‖r_c‖), with ‖C‖ of Frobenius.

    It is the smallest relative change of C and r_c that makes w_c exact [Rigal & Gaches 1967], up
    to the norm, and does not depend on the scale of features or of a class.

    Notes:
        Storing W in float32 changes every entry by at most 2⁻²⁴ of it, and C w_c by at most
        2⁻²⁴ ‖C‖ ‖w_c‖. ``FLOAT32`` allows twice that: the other half is for the solution itself,
        whose error in float64 is far smaller unless the condition number is near its limit.
    """
    matrix, right = equations
    left = np.linalg.norm(matrix @ head - right, axis=0)
    scale = np.linalg.norm(matrix) * np.linalg.norm(head, axis=0) + np.linalg.norm(right, axis=0)
    return float(np.max(np.divide(left, scale, out=np.zeros_like(left), where=scale > 0)))
