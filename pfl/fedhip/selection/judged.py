"""What leave-one-out says of candidates at one client: each family's path from one spectrum."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from pfl.fedhip.families.client_problem import ClientProblem
from pfl.fedhip.families.table import Candidate, Family
from pfl.fedhip.selection.calibration import calibrate

BLOCK = 1 << 20  # scores held at once

LogRatio = Float[np.ndarray, "j d"]


@dataclass(frozen=True)
class Judged:
    """A calibrated candidate.

    Attributes:
        number: of the candidate.
        scale: s.
        prior: γ.
        objective: what calibration leaves, in nats.
        scores: s z + γ r of each judged sample, left out.
    """

    number: int
    scale: float
    prior: float
    objective: float
    scores: Float[np.ndarray, "j d"]


def judge(
    problem: ClientProblem,
    every: Sequence[Candidate],
    numbers: Sequence[int],
    log_ratios: Sequence[LogRatio | None],
) -> list[tuple[Judged, Float[np.ndarray, " numbers"]]]:
    """For each prior the best of some candidates, and the objective of each candidate.

    Of equally good ones the first is taken. A prior is the left-out one of each judged sample, or
    None where none counts. One decomposition serves all anchored and local heads.
    """
    best: list[Judged | None] = [None] * len(log_ratios)
    objectives = [np.full(len(numbers), np.inf) for _ in log_ratios]
    for places, scores in _blocks(problem, every, numbers):
        for i, log_ratio in enumerate(log_ratios):
            found = calibrate(scores, problem.judged_labels, log_ratio)
            objectives[i][places] = found.objective
            place = int(found.objective.argmin())
            number, objective = numbers[places[place]], float(found.objective[place])
            so_far = best[i]
            if so_far is None or (objective, number) < (so_far.objective, so_far.number):
                scale, prior = float(found.scale[place]), float(found.prior[place])
                calibrated = _calibrated(scores[:, place], scale, prior, log_ratio)
                best[i] = Judged(number, scale, prior, objective, calibrated)
    return [(one, values) for one, values in zip(best, objectives, strict=True) if one is not None]


def _calibrated(
    scores: Float[np.ndarray, "j d"], scale: float, prior: float, log_ratio: LogRatio | None
) -> Float[np.ndarray, "j d"]:
    result: np.ndarray = scale * scores
    return result if log_ratio is None else result + prior * log_ratio


def _blocks(
    problem: ClientProblem, every: Sequence[Candidate], numbers: Sequence[int]
) -> Iterator[tuple[list[int], Float[np.ndarray, "j b d"]]]:
    """Places in ``numbers`` of candidates on one path, and their left-out scores, by blocks."""
    ordered = sorted(range(len(numbers)), key=lambda place: _path_key(every[numbers[place]]))
    together = max(1, BLOCK // problem.judged_targets.size)
    for (family, _), path in itertools.groupby(
        ordered, key=lambda place: _path_key(every[numbers[place]])
    ):
        places = list(path)
        scores = family.definition.leave_one_out(problem, every[numbers[places[0]]])
        for start in range(0, len(places), together):
            part = places[start : start + together]
            values = np.array([every[numbers[place]].along for place in part])
            yield part, scores(values)


def _path_key(candidate: Candidate) -> tuple[Family, tuple[float, ...]]:
    """Candidates on one path have one key: all parameters but the first are the same."""
    return candidate.family, tuple(
        getattr(candidate, name) for name in list(candidate.family.definition.grids)[1:]
    )
