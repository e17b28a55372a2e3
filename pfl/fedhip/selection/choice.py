"""A client's choice by leave-one-out, and the heads it leads to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from pfl.fedhip.anchored import anchored_head
from pfl.fedhip.closed_form import Knowledge, local_head, personalized_head, with_beta
from pfl.fedhip.moments import Moments
from pfl.fedhip.selection.candidates import Candidate, Family, Settings, candidates, eligible
from pfl.fedhip.selection.criteria import Criterion
from pfl.fedhip.selection.losses import Own, losses
from pfl.ridge.gcv import GlobalPath, global_path


@dataclass(frozen=True)
class Menu:
    """What all clients share: the server's answer, made ready, and the candidates.

    Attributes:
        candidates: every candidate, the most global first.
        personalized: numbers of those that P_k may be, ascending.
        local: numbers of those that L_k may be, ascending.
        criterion: what leave-one-out makes small.
        server: the server's answer at its own β.
        at: the same sums at each β of equation (14).
        path: the spectrum of the sums.
    """

    candidates: tuple[Candidate, ...]
    personalized: tuple[int, ...]
    local: tuple[int, ...]
    criterion: Criterion
    server: Knowledge
    at: Mapping[float, Knowledge]
    path: GlobalPath

    @property
    def open(self) -> list[int]:
        """Numbers of the candidates that are compared: those of a choice of more than one."""
        choices = [part for part in (self.personalized, self.local) if len(part) > 1]
        return sorted({i for part in choices for i in part})


def menu(total: Moments, knowledge: Knowledge, settings: Settings, criterion: Criterion) -> Menu:
    """Prepare the choice of every client from what the server sent."""
    every = candidates(settings, scale_of(knowledge.gram, total.samples))
    betas = {one.beta for one in every if one.family is Family.FEDHIP}
    return Menu(
        candidates=every,
        personalized=eligible(every, settings.family),
        local=eligible(every, Family.LOCAL),
        criterion=criterion,
        server=knowledge,
        at={beta: with_beta(knowledge, beta) for beta in betas},
        path=global_path(*total.ridge_sums()),
    )


def scale_of(gram: Float[np.ndarray, "m m"], samples: int) -> float:
    """Mean squared length of a sample's features, by which the grids of candidates are scaled."""
    return float(np.trace(gram)) / max(samples, 1) or 1.0


@dataclass(frozen=True)
class Chosen:
    """One client's heads and how they came about.

    Attributes:
        local: L_k, the baseline, with a β of its own.
        personalized: P_k.
        local_choice: number of the candidate that L_k is.
        choice: number of the candidate that P_k is.
        losses: leave-one-out loss of every candidate, NaN where there was nothing to choose.
    """

    local: Float[np.ndarray, "m d"]
    personalized: Float[np.ndarray, "m d"]
    local_choice: int
    choice: int
    losses: Float[np.ndarray, " candidates"]


def choose(menu: Menu, features: Float[np.ndarray, "n m"], labels: Int[np.ndarray, " n"]) -> Chosen:
    """Choose among the candidates and solve for the heads of one client.

    The client uses its own samples and what the server sent. A chosen head is made by the very
    function that makes it from numbers, so choosing and being told give the same bytes. From none
    or one sample nothing can be learned by leaving one out: an open choice then falls on the first
    candidate, the global head, and the baseline on the largest β.
    """
    if len(labels) > 1:
        own = Own(menu.path, menu.server.beta, features, labels)
        found = losses(own, menu.candidates, menu.open, menu.criterion)
    else:
        found = np.full(len(menu.candidates), np.nan)
    local = _least(found, menu.local, menu.local[0])
    choice = _least(found, menu.personalized, 0)
    baseline, own_head = (_head(menu, i, features, labels) for i in (local, choice))
    return Chosen(baseline, own_head, local, choice, found)


def _least(found: Float[np.ndarray, " candidates"], numbers: Sequence[int], otherwise: int) -> int:
    """The first candidate of least loss; the only one; or ``otherwise`` when none was measured."""
    if len(numbers) == 1:
        return numbers[0]
    part = found[list(numbers)]
    return otherwise if np.isnan(part).any() else numbers[int(part.argmin())]


def _head(
    menu: Menu,
    number: int,
    features: Float[np.ndarray, "n m"],
    labels: Int[np.ndarray, " n"],
) -> Float[np.ndarray, "m d"]:
    one = menu.candidates[number]
    match one.family:
        case Family.FEDHIP:
            return personalized_head(menu.at[one.beta], features, labels, one.alpha)
        case Family.ANCHORED:
            return anchored_head(menu.server.head, features, labels, one.rho)
        case Family.LOCAL:
            return local_head(features, labels, menu.server.head.shape[1], one.beta)
        case _:
            return menu.server.head.copy()
