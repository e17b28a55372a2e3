"""The heads that a client may choose from, the same for all clients, the most global first."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pfl.errors import InputError
from pfl.fedhip.families.table import Candidate, Family
from pfl.runtime.values import checked, number_or_auto

# In every run: what others are compared with, L_k and the paper's P_k.
ALWAYS = (Family.GLOBAL, Family.FEDHIP, Family.LOCAL)
# The members of ``auto``, the two that it is drawn to first.
STACKED = (Family.LDA, Family.GLOBAL, Family.ANCHORED, Family.LOCAL)
NUMBERS = ("alpha", "beta", "rho", "shrinkage", "pull", "smoothing")


class Prior(StrEnum):
    """Whether the personalized head counts the client's class prior: as far as it helps, or not."""

    AUTO = "auto"
    NONE = "none"


@dataclass(frozen=True)
class PersonalizeSettings:
    """What the user fixed of the heads; None is left to leave-one-out.

    Attributes:
        family: of the personalized head.
        alpha: α of equation (14).
        beta: β of the local head.
        rho: ρ of the anchored head.
        shrinkage: λ of the discriminant.
        pull: κ of the discriminant.
        prior: of the personalized head.
        smoothing: ε of the client's class prior, in samples per class; None for what counts say.
    """

    family: Family
    alpha: float | None = None
    beta: float | None = None
    rho: float | None = None
    shrinkage: float | None = None
    pull: float | None = None
    prior: Prior = Prior.AUTO
    smoothing: float | None = None

    @property
    def members(self) -> tuple[Family, ...]:
        """The families that the personalized head is of."""
        return STACKED if self.family is Family.AUTO else (self.family,)


def personalize_settings(section: Mapping[str, object]) -> PersonalizeSettings:
    """Section ``personalize`` of the parameters, or its values as flags have them.

    Raises:
        InputError: a value is missing or cannot be used.
    """
    missing = sorted({"family", *NUMBERS, "prior"} - set(section))
    if missing:
        raise InputError(f"personalize.{missing[0]} is missing: add it to the parameters.")
    numbers = {
        name: number_or_auto(section[name], f"personalize.{name}", zero=name == "alpha")
        for name in NUMBERS
    }
    return PersonalizeSettings(
        checked("personalize.family", section["family"], Family),
        **numbers,
        prior=checked("personalize.prior", section["prior"], Prior),
    )


def candidates(settings: PersonalizeSettings, scale: float) -> tuple[Candidate, ...]:
    """All candidates, so ordered that the earlier of two equally good ones is the more global.

    Families by their locality: the global head; discriminants; anchored heads with ρ descending;
    the heads of (14) with α ascending; local heads with β descending. There are those that
    ``settings.family`` is made of and those of ``ALWAYS``.

    A parameter that ``settings`` give has that value only. ``scale`` is the mean squared length of
    a sample's features, above 0.
    """
    wanted = {*ALWAYS, *settings.members}
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


def of_family(every: tuple[Candidate, ...], family: Family) -> tuple[int, ...]:
    """Numbers of the candidates of a family, ascending."""
    return tuple(i for i, candidate in enumerate(every) if candidate.family is family)
