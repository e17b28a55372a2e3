"""How far a stored head misses the system that defines it, told from sums alone.

Every head W of this project solves C W = R with C symmetric positive definite; its family's module
in :mod:`pfl.fedhip.families` has C and R.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from pfl.fedhip.closed_form import Knowledge
from pfl.fedhip.families.family import NormalEquations
from pfl.fedhip.families.table import Candidate
from pfl.fedhip.moments import Moments
from pfl.ridge.linalg import definite, spectrum

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


def sum_error(
    parts: Sequence[tuple[Candidate, float]],
    own: Moments,
    server: Knowledge,
    weight: Float[np.ndarray, "m d"],
    bias: Float[np.ndarray, " d"],
) -> tuple[float, float]:
    """What is wrong with a sum of heads, and what is allowed: of one head its backward error.

    Of several, each is solved for again from sums alone and the sum compared: the largest error of
    a class's weights, relative to the sizes Σ_j |f_j| ‖w_jc‖ that are added up. The bias, where
    there is one, follows from the weights and is compared likewise.
    """
    solved, limit, error = np.zeros_like(weight), FLOAT32, 0.0
    size, expected, bias_size = np.zeros((3, weight.shape[1]))
    alone = [factor for _, factor in parts] == [1.0]
    for one, factor in parts:
        family = one.family.definition
        equations = family.normal_equations(one, own, server)
        if alone:
            error = backward_error(equations, weight)
            limit = FLOAT32 if error <= FLOAT32 else allowed(equations)
            head = weight
        else:
            head = definite(equations.matrix, lambda _: _UNSOLVABLE).solve(equations.right)
            limit = max(limit, allowed(equations))
        solved += factor * head
        start = 0.0 if equations.start is None else np.linalg.norm(equations.start, axis=0)
        size += abs(factor) * (np.linalg.norm(head, axis=0) + start)
        if family.bias is not None:
            part = factor * family.bias(one, head, own, server)
            expected, bias_size = expected + part, bias_size + np.abs(part)
            bias_size += abs(factor) * np.abs(server.scatter.center) @ np.abs(head)
    if not alone:
        error = _relative(np.linalg.norm(solved - weight, axis=0), size)
    return max(error, _relative(np.abs(expected - bias), bias_size)), limit


_UNSOLVABLE = "The normal equations of a head cannot be solved: run `dvc repro personalize`."


def _relative(errors: Float[np.ndarray, " d"], sizes: Float[np.ndarray, " d"]) -> float:
    """The largest error by its size; infinite where there is one and should be nothing at all."""
    nothing = np.where(errors > 0, np.inf, 0.0)
    return float(np.max(np.divide(errors, sizes, out=nothing, where=sizes > 0)))


def allowed(equations: NormalEquations) -> float:
    """Backward error allowed of a head in float32: ``FLOAT32``, or ``ROUNDING``·κ(C) if more.

    With fewer samples than features heads come from an (N_k, N_k) system. They are as near the true
    ones as the condition number κ lets them be, but need not be the exact solution of a nearby C.
    """
    values = spectrum(equations.matrix).values
    return max(FLOAT32, ROUNDING * float(values[-1] / values[0])) if values[0] > 0 else np.inf
