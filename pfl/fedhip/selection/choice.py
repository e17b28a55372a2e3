"""A client's heads: each family's best by leave-one-out, and the sum of them that it uses.

The client keeps, by the names in ``KEPT``: L_k, the paper's local head (7); the paper's P_k (14),
both without a prior; G with the client's class prior; and the personalized head, which is of one
family, or under ``auto`` a sum of several (:mod:`pfl.fedhip.selection.stacking`).
"""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from pfl.fedhip.affine_head import AffineHead, linear, weighted_sum
from pfl.fedhip.closed_form import Knowledge
from pfl.fedhip.families.client_problem import ClientProblem, Pooled
from pfl.fedhip.families.table import FAMILIES, Candidate, Family
from pfl.fedhip.selection.calibration import SIZE
from pfl.fedhip.selection.candidates import PersonalizeSettings, Prior, candidates, of_family
from pfl.fedhip.selection.judged import Judged, judge
from pfl.fedhip.selection.left_out_prior import left_out_log_ratio, own_log_ratio
from pfl.fedhip.selection.stacking import stack
from pfl.ridge.linalg import spectrum
from pfl.runtime.class_prior import shares

LOCAL, GLOBAL_PRIOR = "local", "global-prior"
EQUATION_14, PERSONALIZED = "equation-14", "personalized"
KEPT = (LOCAL, GLOBAL_PRIOR, EQUATION_14, PERSONALIZED)
NO_CHOICE = -1
CHANCE = 2.0  # standard deviations


@dataclass(frozen=True)
class Alternatives:
    """The heads that every client chooses from, and the server's answer, ready to make them.

    Attributes:
        candidates: every candidate, the most global first.
        settings: what the user fixed.
        pooled: the server's answer, and what follows from it for all clients.
        temperature: s of G where a client has nothing to calibrate with.
    """

    candidates: tuple[Candidate, ...]
    settings: PersonalizeSettings
    pooled: Pooled
    temperature: float

    @property
    def server(self) -> Knowledge:
        """The server's answer."""
        return self.pooled.server

    def numbers(self, family: Family) -> tuple[int, ...]:
        """Numbers of a family's candidates."""
        return of_family(self.candidates, family)

    @property
    def shares(self) -> Float[np.ndarray, " d"]:
        """π_c, everybody's shares of classes."""
        return shares(self.server.count)

    def log_ratio(self, count: Int[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """Log p_k(c)/π_c of a client with so many samples of each class."""
        return own_log_ratio(count, self.server.count, self.settings.smoothing)

    def head(self, number: int, problem: ClientProblem) -> AffineHead:
        """The head that a candidate is for a client."""
        candidate = self.candidates[number]
        return candidate.family.definition.head(candidate, problem)


def prepare_choice(server: Knowledge, settings: PersonalizeSettings) -> Alternatives:
    """Prepare the choice of every client from what the server sent."""
    scale = scale_of(server.gram, server.samples)
    return Alternatives(
        candidates(settings, scale),
        settings,
        Pooled(server, spectrum(server.gram)),
        temperature(server),
    )


def scale_of(gram: Float[np.ndarray, "m m"], samples: int) -> float:
    """Mean squared length of a sample's features, by which the grids of candidates are scaled."""
    return float(np.trace(gram)) / max(samples, 1) or 1.0


def temperature(server: Knowledge) -> float:
    """s₀ of G from sums alone: centered scores then have ``SIZE`` nats of length, root mean square.

    With G centered over classes, the mean squared length is tr(GᵀFᵀFG) / N. 1 where it is 0.
    """
    centered = server.head - server.head.mean(axis=1, keepdims=True)
    square = float(np.sum(centered * (server.gram @ centered))) / max(server.samples, 1)
    return SIZE / float(np.sqrt(square)) if square > 0 else 1.0


@dataclass(frozen=True)
class KeptHead:
    """A head with its calibration: class scores s (x W + b) + γ log p_k(c)/π_c.

    Attributes:
        head: W and b.
        scale: s.
        prior: γ.
    """

    head: AffineHead
    scale: float
    prior: float


@dataclass(frozen=True)
class Chosen:
    """One client's heads and how they came about.

    Attributes:
        kept: the heads, by ``KEPT``.
        log_ratio: log p_k(c)/π_c, which all priors are made of.
        choice: numbers of the candidates that L_k and the head of (14) are.
        member: of each family in ``FAMILIES`` the number of the candidate that the personalized
            head is made of, ``NO_CHOICE`` where there is none.
        stack: the weight of each of these, calibrated, in it.
        factor: how often the weights W of each are in its own.
        objective: penalized leave-one-out cross-entropy of every candidate, in nats; NaN where
            none was left out.
    """

    kept: Mapping[str, KeptHead]
    log_ratio: Float[np.ndarray, " d"]
    choice: Mapping[str, int]
    member: Int[np.ndarray, " families"]
    stack: Float[np.ndarray, " families"]
    factor: Float[np.ndarray, " families"]
    objective: Float[np.ndarray, " candidates"]


@dataclass(frozen=True)
class _Verdict:
    """What leave-one-out says at one client.

    Attributes:
        plain: the best of L_k and (14), without a prior.
        shared: G with the prior.
        members: the best of each family that the personalized head may be of.
        weights: of the members.
        objective: of every candidate.
    """

    plain: Mapping[Family, Judged]
    shared: Judged
    members: Mapping[Family, Judged]
    weights: Float[np.ndarray, " members"]
    objective: Float[np.ndarray, " candidates"]


def choose(
    alternatives: Alternatives, features: Float[np.ndarray, "n m"], labels: Int[np.ndarray, " n"]
) -> Chosen:
    """Choose among the candidates and solve for the heads of one client.

    The client uses its own samples and what the server sent. A chosen head is made by the very
    function that makes it from numbers, so choosing and being told give the same bytes. From none
    or one sample nothing can be learned by leaving one out: then the personalized head is G, the
    others are the most global of their family, and no prior counts.
    """
    problem = ClientProblem(alternatives.pooled, features, labels)
    verdict = (_judged if len(labels) > 1 else _unjudged)(alternatives, problem)

    @functools.cache  # L_k may be in the sum too
    def head(number: int) -> AffineHead:
        return alternatives.head(number, problem)

    own, paper = verdict.plain[Family.LOCAL], verdict.plain[Family.FEDHIP]
    personalized, factors = _personalized(verdict, head)
    member = np.full(len(FAMILIES), NO_CHOICE)
    stack_of, factor_of = np.zeros((2, len(FAMILIES)))
    pairs = zip(verdict.members.items(), verdict.weights.tolist(), strict=True)
    for (family, one), weight in pairs:
        if family in factors:
            place = FAMILIES.index(family)
            member[place], stack_of[place], factor_of[place] = one.number, weight, factors[family]
    return Chosen(
        kept={
            LOCAL: KeptHead(head(own.number), own.scale, own.prior),
            GLOBAL_PRIOR: KeptHead(
                linear(alternatives.server.head), verdict.shared.scale, verdict.shared.prior
            ),
            EQUATION_14: KeptHead(head(paper.number), paper.scale, paper.prior),
            PERSONALIZED: personalized,
        },
        log_ratio=alternatives.log_ratio(problem.count),
        choice={LOCAL: own.number, EQUATION_14: paper.number},
        member=member,
        stack=stack_of,
        factor=factor_of,
        objective=verdict.objective,
    )


def _personalized(
    verdict: _Verdict, head: Callable[[int], AffineHead]
) -> tuple[KeptHead, dict[Family, float]]:
    """The personalized head, and how often the weights of each family's head are in its own.

    A single family's is kept as it is, with its calibration beside it; a sum has it inside.
    """
    pairs = zip(verdict.members.items(), verdict.weights.tolist(), strict=True)
    used = [(family, one, weight) for (family, one), weight in pairs if weight > 0]
    if len(used) == 1:
        ((family, one, weight),) = used
        return KeptHead(head(one.number), weight * one.scale, weight * one.prior), {family: 1.0}
    factors = {family: weight * one.scale for family, one, weight in used}
    summed = weighted_sum(list(factors.values()), [head(one.number) for _, one, _ in used])
    prior = sum(weight * one.prior for _, one, weight in used)
    return KeptHead(summed, 1.0, prior), factors


def _judged(alternatives: Alternatives, problem: ClientProblem) -> _Verdict:
    """Each family's best, and the weights of those that the personalized head is of."""
    settings, every = alternatives.settings, alternatives.candidates
    by_label = left_out_log_ratio(problem.count, alternatives.server.count, settings.smoothing)
    ratio = by_label[problem.judged_labels]
    prior = ratio if settings.prior is Prior.AUTO else None
    wanted: dict[Family, list[np.ndarray | None]] = {family: [prior] for family in settings.members}
    wanted[Family.GLOBAL] = [ratio, *wanted.get(Family.GLOBAL, [])]
    for family in (Family.LOCAL, Family.FEDHIP):
        wanted[family] = [None, *wanted.get(family, [])]
    objective, found = np.full(len(every), np.nan), {}
    for family, priors in wanted.items():
        numbers = alternatives.numbers(family)
        verdicts = judge(problem, every, numbers, priors)
        objective[list(numbers)] = verdicts[-1][1]
        found[family] = [one for one, _ in verdicts]
    members = {family: found[family][-1] for family in settings.members}
    if len(members) > 1:
        members = {family: one for family, one in members.items() if np.isfinite(one.objective)}
    instead = found[Family.GLOBAL][-1]  # G, with the prior unless the settings are against it
    members = members or {Family.GLOBAL: instead}
    labels = problem.judged_labels
    weights = stack([one.scores for one in members.values()], labels)
    sums = settings.family is Family.AUTO
    if sums and (not weights.any() or _worse(members, weights, instead, labels)):
        members, weights = {Family.GLOBAL: instead}, np.ones(1)
    plain = {family: found[family][0] for family in (Family.LOCAL, Family.FEDHIP)}
    return _Verdict(plain, found[Family.GLOBAL][0], members, weights, objective)


def _worse(
    members: Mapping[Family, Judged],
    weights: Float[np.ndarray, " members"],
    shared: Judged,
    labels: Int[np.ndarray, " j"],
) -> bool:
    """Whether the sum errs more often than G by more than chance.

    Of b samples that only the sum gets wrong and c that only G does, b − c has the variance b + c
    where both are equally good [McNemar 1947].
    """
    scores = sum(w * one.scores for w, one in zip(weights, members.values(), strict=True))
    wrong, others = (np.argmax(z, axis=1) != labels for z in (scores, shared.scores))
    only, other = int((wrong & ~others).sum()), int((others & ~wrong).sum())
    return only - other > CHANCE * math.sqrt(only + other)


def _unjudged(alternatives: Alternatives, problem: ClientProblem) -> _Verdict:
    """What a client with none or one sample has."""
    scores = np.zeros(problem.judged_targets.shape)

    def first(family: Family) -> Judged:
        number = alternatives.numbers(family)[0]
        return Judged(number, alternatives.temperature, 0.0, np.nan, scores)

    family = alternatives.settings.family
    known = family is not Family.AUTO and len(alternatives.numbers(family)) == 1
    member = family if known else Family.GLOBAL
    return _Verdict(
        plain={family: first(family) for family in (Family.LOCAL, Family.FEDHIP)},
        shared=first(Family.GLOBAL),
        members={member: first(member)},
        weights=np.ones(1),
        objective=np.full(len(alternatives.candidates), np.nan),
    )
