"""What a family of heads consists of; :mod:`pfl.fedhip.families.table` lists those there are."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from pfl.fedhip.closed_form import Knowledge
from pfl.fedhip.families.client_problem import ClientProblem
from pfl.fedhip.moments import Moments
from pfl.ridge.grid import decades

RIDGES = (1e-3, 1e3, 4)  # ρ and a local head's β, relative to ``scale``; values per factor of ten


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The numbers that make one head of a family; NaN where the family has no such number.

    Attributes:
        alpha: α of equation (14).
        beta: β of equation (14), or of the local head.
        rho: ρ of the anchored head.
    """

    alpha: float = math.nan
    beta: float = math.nan
    rho: float = math.nan


class NormalEquations(NamedTuple):
    """C W = R, and the head G of which W is computed by adding a correction, where it is."""

    matrix: Float[np.ndarray, "m m"]
    right: Float[np.ndarray, "m d"]
    start: Float[np.ndarray, "m d"] | None = None


@dataclass(frozen=True)
class Curve:
    """How a family's accuracy is drawn along its parameter, at the server's β.

    Its heads are G + w VᵀR(w)E of a :class:`pfl.ridge.smoother.Smoother` of some V made of F_k.

    Attributes:
        symbol: of the parameter.
        title: of the family.
        features: V of samples with these features.
        weight: w of a value of the parameter.
    """

    symbol: str
    title: str
    features: Callable[[Knowledge, Float[np.ndarray, "n m"]], Float[np.ndarray, "n m"]]
    weight: Callable[[float], float]


Residuals = Callable[[Float[np.ndarray, " b"]], Float[np.ndarray, "n b d"]]
HeadOf = Callable[
    [Parameters, Knowledge, Float[np.ndarray, "n m"], Int[np.ndarray, " n"]],
    Float[np.ndarray, "m d"],
]


@dataclass(frozen=True)
class HeadFamily:
    """One way to make a client's head from its own samples and what the server sent.

    Attributes:
        head: the head with these parameters, from the server's answer and a client's samples.
        leave_one_out: the residuals of a client's samples, as a function of the first parameter
            with all others as given; see :mod:`pfl.fedhip.families.client_problem`.
        normal_equations: the system that the head solves, from the sums of the client alone.
        locality: its place from the most global family, 0, on: of two equally good heads the more
            global is chosen.
        grids: by parameter the values to be tried for features of this mean squared length, from
            the more global to the more local; the first parameter varies along a path.
        pooled_beta: whether β is the ridge of the sums over all clients, in place of the server's.
        curve: how it is drawn; None if it is not.
    """

    head: HeadOf
    leave_one_out: Callable[[ClientProblem, Parameters], Residuals]
    normal_equations: Callable[[Parameters, Moments, Knowledge], NormalEquations]
    locality: int
    grids: Mapping[str, Callable[[float], list[float]]] = field(default_factory=dict)
    pooled_beta: bool = False
    curve: Curve | None = None


def ridge_grid(scale: float) -> list[float]:
    """Values of ρ, and of a local head's β, descending."""
    lowest, highest, steps = RIDGES
    return decades(lowest * scale, highest * scale, steps)[::-1]
