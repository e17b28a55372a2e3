"""The table of all families of heads; a new one is a module beside this one and a line here.

A parameter of its own is a field of ``Parameters`` and of ``PersonalizeSettings``, too.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from pfl.fedhip.families.anchored_head import ANCHORED_HEAD
from pfl.fedhip.families.discriminant import DISCRIMINANT
from pfl.fedhip.families.equation_14 import EQUATION_14
from pfl.fedhip.families.family import HeadFamily, Parameters
from pfl.fedhip.families.global_head import GLOBAL_HEAD
from pfl.fedhip.families.local_head import LOCAL_HEAD


class Family(StrEnum):
    """How a head comes about, by the name that parameters and artifacts have for it.

    ``auto`` is a weighted sum of several, and has no definition.
    """

    definition: HeadFamily

    FEDHIP = "fedhip", EQUATION_14
    ANCHORED = "anchored", ANCHORED_HEAD
    LDA = "lda", DISCRIMINANT
    LOCAL = "local", LOCAL_HEAD
    GLOBAL = "global", GLOBAL_HEAD
    AUTO = "auto"

    def __new__(cls, name: str, definition: HeadFamily | None = None) -> "Family":
        """A member whose value is its name."""
        family = str.__new__(cls, name)
        family._value_ = name
        if definition is not None:
            family.definition = definition
        return family


FAMILIES: tuple[Family, ...] = tuple(family for family in Family if family is not Family.AUTO)


@dataclass(frozen=True)
class Candidate(Parameters):
    """One head that a client may choose.

    All but the local head use the server's own β, which is not a choice of the client.
    """

    family: Family

    @property
    def along(self) -> float:
        """The parameter that varies along the family's path; NaN where there is none."""
        names = list(self.family.definition.grids)
        value: float = getattr(self, names[0]) if names else math.nan
        return value
