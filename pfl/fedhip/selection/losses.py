"""The leave-one-out loss of every candidate at one client: each family's path from one spectrum."""

import itertools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from pfl.fedhip.families.client_problem import ClientProblem
from pfl.fedhip.families.table import Candidate, Family
from pfl.fedhip.selection.criteria import Criterion, loss

BLOCK = 1 << 22  # residuals held at once


def losses(
    problem: ClientProblem, every: Sequence[Candidate], wanted: Sequence[int], criterion: Criterion
) -> Float[np.ndarray, " candidates"]:
    """Leave-one-out loss of the wanted candidates, NaN for the others; at least one sample.

    One decomposition serves all anchored and local heads, and one each β of equation (14).
    """
    result = np.full(len(every), np.nan)
    ordered = sorted(wanted, key=lambda i: _path_key(every[i]))
    together = max(1, BLOCK // problem.targets.size)
    for (family, _), on_path in itertools.groupby(ordered, key=lambda i: _path_key(every[i])):
        numbers = list(on_path)
        residuals = family.definition.leave_one_out(problem, every[numbers[0]])
        for start in range(0, len(numbers), together):
            part = numbers[start : start + together]
            values = np.array([every[i].along for i in part])
            result[part] = loss(criterion, residuals(values), problem.labels)
    return result


def _path_key(candidate: Candidate) -> tuple[Family, tuple[float, ...]]:
    """Candidates on one path have one key: all parameters but the first are the same."""
    return candidate.family, tuple(
        getattr(candidate, name) for name in list(candidate.family.definition.grids)[1:]
    )
