"""What must hold of how heads are made up and of their probabilities, told without samples.

Scales, priors and weights themselves come from samples that were left out: that they are those of
the report is told by its accuracies.
"""

import numpy as np
from jaxtyping import Float

from pfl.artifacts.project import Project
from pfl.data.samples.clients import read_clients
from pfl.errors import InputError
from pfl.fedhip.closed_form import Knowledge
from pfl.fedhip.families.table import FAMILIES
from pfl.fedhip.heads import MADE_OF, Heads, open_heads
from pfl.fedhip.selection.choice import (
    EQUATION_14,
    KEPT,
    LOCAL,
    NO_CHOICE,
    PERSONALIZED,
    temperature,
)
from pfl.fedhip.selection.left_out_prior import own_log_ratio
from pfl.fedhip.server import read_server
from pfl.runtime.class_prior import shares

ROUNDING = 1e-9  # of logarithms and shares in float64, with much to spare


def calibration(project: Project) -> str:
    """Priors are of the clients' counts, and no head is scaled, or counts a part, below zero."""
    count = read_clients(project.artifact("clients")).train.count
    _, knowledge = read_server(project.artifact("server"))
    with open_heads(project.artifact("heads")) as heads:
        _check_shared(heads, knowledge)
        stored = heads.of(PERSONALIZED, knowledge.head, 0, len(count)).log_ratio
        smoothing = float(str(heads.file.attrs["smoothing"]))
        for client in np.flatnonzero(heads.stayed).tolist():
            expected = own_log_ratio(count[client], knowledge.count, smoothing)
            if not _near(stored[client], expected):
                raise _wrong(f"the class prior of client {client} is not that of its samples")
            _check_numbers(heads, client)
            _check_parts(heads, client)
    return f"class priors as in clients.h5, smoothed by {smoothing:g} samples a class"


def _check_shared(heads: Heads, server: Knowledge) -> None:
    if not _near(heads.shares, shares(server.count)):
        raise _wrong("everybody's shares of classes are not those of server.h5")
    expected = temperature(server)
    if not _near(np.array(heads.temperature / expected), np.ones(())):
        raise _wrong(f"the global head's scale is {heads.temperature:g}, not {expected:g}")


def _check_numbers(heads: Heads, client: int) -> None:
    for kind in KEPT:
        for name in ("scale", "prior"):
            value = float(heads.file[kind][name][client])
            if not 0 <= value < np.inf:
                raise _wrong(
                    f"the {kind} head of client {client} has the {name} {value:g}, below 0 or no "
                    "finite number"
                )
        if kind in (LOCAL, EQUATION_14) and heads.file[kind]["prior"][client] != 0:
            raise _wrong(f"the {kind} head of client {client} counts a class prior")


def _check_parts(heads: Heads, client: int) -> None:
    """Each part has a candidate of its family and a weight, and what is no part has neither."""
    member, stack, factor = (heads.file[PERSONALIZED][name][client] for name in MADE_OF)
    numbers = zip(FAMILIES, member.tolist(), stack.tolist(), factor.tolist(), strict=True)
    parts = 0
    for family, number, weight, times in numbers:
        part = number != NO_CHOICE
        known = 0 <= number < len(heads.candidates) and heads.candidates[number].family is family
        positive = 0 < weight < np.inf and 0 < times < np.inf
        if not (known and positive if part else weight == times == 0):
            raise _wrong(
                f"the personalized head of client {client} has {family} with the weight "
                f"{weight:g}, {times:g} times the candidate {number}, which cannot be"
            )
        parts += part
    if not parts:
        raise _wrong(f"the personalized head of client {client} is made of nothing")


def _near(found: Float[np.ndarray, "..."], expected: Float[np.ndarray, "..."]) -> bool:
    return found.shape == expected.shape and bool(np.all(np.abs(found - expected) <= ROUNDING))


def _wrong(what: str) -> InputError:
    return InputError(f"In heads.h5 {what}: run `dvc repro personalize`.")
