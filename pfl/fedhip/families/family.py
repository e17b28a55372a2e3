"""What a family of heads consists of; :mod:`pfl.fedhip.families.table` lists those there are."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from pfl.fedhip.affine_head import AffineHead
from pfl.fedhip.closed_form import Knowledge
from pfl.fedhip.families.client_problem import ClientProblem
from pfl.fedhip.moments import Moments
from pfl.ridge.grid import decades

RIDGES = (1e-3, 1e3, 2)  # ρ and a local head's β, relative to ``scale``; values per factor of ten


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The numbers that make one head of a family; NaN where the family has no such number.

    Attributes:
        alpha: α of equation (14).
        beta: β of the local head.
        rho: ρ of the anchored head.
        shrinkage: λ of the discriminant.
        pull: κ of the discriminant.
    """

    alpha: float = math.nan
    beta: float = math.nan
    rho: float = math.nan
    shrinkage: float = math.nan
    pull: float = math.nan


class NormalEquations(NamedTuple):
    """C W = R, and the head G of which W is computed by adding a correction, where it is."""

    matrix: Float[np.ndarray, "m m"]
    right: Float[np.ndarray, "m d"]
    start: Float[np.ndarray, "m d"] | None = None


# Class scores of the judged samples, each from a head made without it, for b values.
Scores = Callable[[Float[np.ndarray, " b"]], Float[np.ndarray, "j b d"]]


@dataclass(frozen=True)
class HeadFamily:
    """One way to make a client's head from its own samples and what the server sent.

    Attributes:
        head: the head with these parameters, of a client.
        leave_one_out: the left-out scores of a client's judged samples, as a function of the first
            parameter with all others as given; see :mod:`pfl.fedhip.families.client_problem`. Not
            a number where rounding leaves nothing of them.
        normal_equations: the system that the head's weights solve, from the client's sums alone.
        bias: the head's bias from its weights and these sums; None where it has none.
        locality: its place from the most global family, 0, on: of two equally good heads the more
            global is chosen.
        grids: by parameter the values to be tried for features of this mean squared length, from
            the more global to the more local; the first parameter varies along a path.
    """

    head: Callable[[Parameters, ClientProblem], AffineHead]
    leave_one_out: Callable[[ClientProblem, Parameters], Scores]
    normal_equations: Callable[[Parameters, Moments, Knowledge], NormalEquations]
    locality: int
    grids: Mapping[str, Callable[[float], list[float]]] = field(default_factory=dict)
    bias: (
        Callable[
            [Parameters, Float[np.ndarray, "m d"], Moments, Knowledge], Float[np.ndarray, " d"]
        ]
        | None
    ) = None


def ridge_grid(scale: float) -> list[float]:
    """Values of ρ, and of a local head's β, descending."""
    lowest, highest, steps = RIDGES
    return decades(lowest * scale, highest * scale, steps)[::-1]
