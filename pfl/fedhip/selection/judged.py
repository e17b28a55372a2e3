"""What leave-one-out says of candidates at one client: each family's path from one spectrum."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float

from pfl.fedhip.families.client_problem import ClientProblem
from pfl.fedhip.families.family import Scores
from pfl.fedhip.families.table import Candidate, Family
from pfl.fedhip.selection.calibration import calibrate

BLOCK = 1 << 20  # scores held at once

LogRatio = Float[np.ndarray, "j d"]
PathKey = tuple[Family, tuple[float, ...]]


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

    The best is judged once more by itself, so that the last bits are those that it has where it is
    the only candidate: many are multiplied as one larger matrix.
    """
    objectives = [np.full(len(numbers), np.inf) for _ in log_ratios]
    paths: dict[PathKey, Scores] = {}
    for places in _paths(every, numbers):
        first = every[numbers[places[0]]]
        path = first.family.definition.leave_one_out(problem, first)
        paths[_path_key(first)] = path
        for part in _parts(places, problem):
            scores = path(np.array([every[numbers[place]].along for place in part]))
            for values, log_ratio in zip(objectives, log_ratios, strict=True):
                values[part] = calibrate(scores, problem.judged_labels, log_ratio).objective
    result = []
    for values, log_ratio in zip(objectives, log_ratios, strict=True):
        number = numbers[int(values.argmin())]
        scores = paths[_path_key(every[number])](np.array([every[number].along]))
        result.append((_alone(number, scores, problem, log_ratio), values))
    return result


def _alone(
    number: int,
    scores: Float[np.ndarray, "j 1 d"],
    problem: ClientProblem,
    log_ratio: LogRatio | None,
) -> Judged:
    """A candidate judged by itself."""
    found = calibrate(scores, problem.judged_labels, log_ratio)
    scale, prior = float(found.scale[0]), float(found.prior[0])
    calibrated = scale * scores[:, 0]
    if log_ratio is not None:
        calibrated = calibrated + prior * log_ratio
    return Judged(number, scale, prior, float(found.objective[0]), calibrated)


def _paths(every: Sequence[Candidate], numbers: Sequence[int]) -> Iterator[list[int]]:
    """Places in ``numbers`` of the candidates on each path."""
    key = partial(_key_at, every, numbers)
    for _, places in itertools.groupby(sorted(range(len(numbers)), key=key), key=key):
        yield list(places)


def _key_at(every: Sequence[Candidate], numbers: Sequence[int], place: int) -> PathKey:
    return _path_key(every[numbers[place]])


def _parts(places: list[int], problem: ClientProblem) -> Iterator[list[int]]:
    """As many candidates as are held at once."""
    together = max(1, BLOCK // problem.judged_targets.size)
    for start in range(0, len(places), together):
        yield places[start : start + together]


def _path_key(candidate: Candidate) -> PathKey:
    """Candidates on one path have one key: all parameters but the first are the same."""
    return candidate.family, tuple(
        getattr(candidate, name) for name in list(candidate.family.definition.grids)[1:]
    )
