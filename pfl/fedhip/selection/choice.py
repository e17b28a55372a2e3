"""A client's choice by leave-one-out, and the heads it leads to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from pfl.fedhip.closed_form import Knowledge, with_beta
from pfl.fedhip.families.client_problem import ClientProblem
from pfl.fedhip.families.table import Candidate, Family
from pfl.fedhip.moments import Moments
from pfl.fedhip.selection.candidates import PersonalizeSettings, candidates, eligible
from pfl.fedhip.selection.criteria import Criterion
from pfl.fedhip.selection.losses import losses
from pfl.ridge.gcv import GlobalPath, global_path


@dataclass(frozen=True)
class Alternatives:
    """The heads that every client chooses from, and the server's answer, ready to make them.

    Attributes:
        candidates: every candidate, the most global first.
        personalized: numbers of those that P_k may be, ascending.
        local: numbers of those that L_k may be, ascending.
        criterion: what leave-one-out makes small.
        server: the server's answer at its own β.
        at: the same sums at each β that a candidate has in place of the server's.
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

    def head(
        self, number: int, features: Float[np.ndarray, "n m"], labels: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "m d"]:
        """The head that a candidate is for the client with these samples."""
        candidate = self.candidates[number]
        definition = candidate.family.definition
        knowledge = self.at[candidate.beta] if definition.pooled_beta else self.server
        return definition.head(candidate, knowledge, features, labels)


def prepare_choice(
    total: Moments, knowledge: Knowledge, settings: PersonalizeSettings, criterion: Criterion
) -> Alternatives:
    """Prepare the choice of every client from what the server sent."""
    every = candidates(settings, scale_of(knowledge.gram, total.samples))
    betas = {candidate.beta for candidate in every if candidate.family.definition.pooled_beta}
    return Alternatives(
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


def choose(
    alternatives: Alternatives, features: Float[np.ndarray, "n m"], labels: Int[np.ndarray, " n"]
) -> Chosen:
    """Choose among the candidates and solve for the heads of one client.

    The client uses its own samples and what the server sent. A chosen head is made by the very
    function that makes it from numbers, so choosing and being told give the same bytes. From none
    or one sample nothing can be learned by leaving one out: an open choice then falls on the first
    candidate, the global head, and the baseline on the largest β.
    """
    every = alternatives.candidates
    if len(labels) > 1:
        problem = ClientProblem(alternatives.path, alternatives.server.beta, features, labels)
        measured = losses(problem, every, alternatives.open, alternatives.criterion)
    else:
        measured = np.full(len(every), np.nan)
    local = _least(measured, alternatives.local, alternatives.local[0])
    personalized = _least(measured, alternatives.personalized, 0)
    return Chosen(
        alternatives.head(local, features, labels),
        alternatives.head(personalized, features, labels),
        local,
        personalized,
        measured,
    )


def _least(
    measured: Float[np.ndarray, " candidates"], numbers: Sequence[int], otherwise: int
) -> int:
    """The first candidate of least loss; the only one; or ``otherwise`` when none was measured."""
    if len(numbers) == 1:
        return numbers[0]
    part = measured[list(numbers)]
    return otherwise if np.isnan(part).any() else numbers[int(part.argmin())]
