"""The heads that a client may choose from, the same for all clients, the most global first."""

import itertools
from dataclasses import dataclass

from pfl.fedhip.families.table import FAMILIES, Candidate, Family

ALWAYS = (Family.GLOBAL, Family.LOCAL)  # what no samples fall back on, and the baseline


@dataclass(frozen=True)
class PersonalizeSettings:
    """What the user fixed of the heads; None is left to leave-one-out.

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


def candidates(settings: PersonalizeSettings, scale: float) -> tuple[Candidate, ...]:
    """All candidates, so ordered that the earlier of two equally good ones is the more global.

    First the global head; then anchored heads with ρ descending; then the heads of (14) with α
    ascending and, at one α, β descending; then local heads with β descending. The families other
    than ``settings.family`` are left out, but not the global head, which a client without samples
    falls back on, nor the local heads, which serve as the baseline.

    A parameter that ``settings`` give has that value only. ``scale`` is the mean squared length of
    a sample's features, above 0.
    """
    wanted = {*ALWAYS, *(FAMILIES if settings.family is Family.AUTO else [settings.family])}
    result: list[Candidate] = []
    for family in sorted(wanted, key=lambda family: family.definition.locality):
        grids = {name: grid(scale) for name, grid in family.definition.grids.items()}
        fixed = {name: getattr(settings, name) for name in grids}
        values = [grids[name] if fixed[name] is None else [fixed[name]] for name in grids]
        result += [
            Candidate(family, **dict(zip(grids, row, strict=True)))
            for row in itertools.product(*values)
        ]
    return tuple(result)


def eligible(every: tuple[Candidate, ...], family: Family) -> tuple[int, ...]:
    """Numbers of the candidates of a family, ascending."""
    return tuple(
        i for i, candidate in enumerate(every) if family in (candidate.family, Family.AUTO)
    )
