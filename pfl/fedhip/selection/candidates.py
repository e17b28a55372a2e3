"""The heads that a client may choose from, the same for all clients, the most global first."""

import math
from dataclasses import dataclass
from enum import StrEnum

from pfl.ridge.grid import decades

# Grids, relative to the mean squared length of a sample's features, in values per factor of ten.
RIDGES = (1e-3, 1e3, 4)  # rho of anchored heads and beta of local ones
BETAS = (1e-1, 1e2, 1)  # beta of equation (14)
ALPHAS = (1e-1, 1e4, 2)  # alpha of equation (14), a pure number


class Family(StrEnum):
    """How a head comes about; ``auto`` is any of the others."""

    FEDHIP = "fedhip"
    ANCHORED = "anchored"
    LOCAL = "local"
    GLOBAL = "global"
    AUTO = "auto"


@dataclass(frozen=True)
class Settings:
    """What the user fixed; None is left to leave-one-out.

    Attributes:
        family: of the personalized head.
        alpha: α of equation (14).
        beta: β of equation (14), and of the local head.
        rho: ρ of the anchored head.
    """

    family: Family
    alpha: float | None
    beta: float | None
    rho: float | None


@dataclass(frozen=True)
class Candidate:
    """One head: its family and parameters, NaN where the family has none.

    The anchored and the global head use the server's own β, which is not a choice of the client.
    """

    family: Family
    alpha: float = math.nan
    beta: float = math.nan
    rho: float = math.nan


def candidates(settings: Settings, scale: float) -> tuple[Candidate, ...]:
    """All candidates, so ordered that the earlier of two equally good ones is the more global.

    First the global head; then anchored heads with ρ descending; then the heads of (14) with α
    ascending and, at one α, β descending; then local heads with β descending. The families other
    than ``settings.family`` are left out, but not the global head, which a client without samples
    falls back on, nor the local heads, which serve as the baseline.

    Args:
        settings: a parameter with a value has that value only.
        scale: mean squared length of a sample's features, above 0.
    """
    ridges = ridge_grid(scale)[::-1]
    found = [Candidate(Family.GLOBAL)]
    if settings.family in (Family.ANCHORED, Family.AUTO):
        found += [Candidate(Family.ANCHORED, rho=r) for r in _fixed(settings.rho, ridges)]
    if settings.family in (Family.FEDHIP, Family.AUTO):
        betas = _fixed(settings.beta, _grid(BETAS, scale)[::-1])
        alphas = _fixed(settings.alpha, alpha_grid())
        found += [Candidate(Family.FEDHIP, alpha=a, beta=b) for a in alphas for b in betas]
    found += [Candidate(Family.LOCAL, beta=b) for b in _fixed(settings.beta, ridges)]
    return tuple(found)


def eligible(every: tuple[Candidate, ...], family: Family) -> tuple[int, ...]:
    """Numbers of the candidates of a family, ascending."""
    return tuple(i for i, one in enumerate(every) if family in (one.family, Family.AUTO))


def ridge_grid(scale: float) -> list[float]:
    """Values of ρ, and of a local head's β, ascending."""
    return _grid(RIDGES, scale)


def alpha_grid() -> list[float]:
    """Values of α, ascending."""
    return _grid(ALPHAS, 1.0)


def _grid(span: tuple[float, float, int], scale: float) -> list[float]:
    lowest, highest, steps = span
    return decades(lowest * scale, highest * scale, steps)


def _fixed(value: float | None, grid: list[float]) -> list[float]:
    return grid if value is None else [value]
