"""Mean ranks of methods over clients, and how far apart they must be [Demšar, JMLR 7 (2006)]."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from pfl.report.statistics.intervals import LEVEL
from pfl.report.statistics.outcomes import Outcomes


@dataclass(frozen=True)
class Ranks:
    """Ranks over blocks, a block a client of a repeat.

    Attributes:
        means: mean rank by method, 1 the best.
        critical: the critical difference: methods whose mean ranks are further apart differ.
        blocks: N, how many clients have all the methods, over all repeats.
        p: of Friedman's test that all methods are equal; NaN for fewer than three methods.
    """

    means: Mapping[str, float]
    critical: float
    blocks: int
    p: float


def ranks(outcomes: Outcomes, level: float = LEVEL) -> Ranks | None:
    """Mean ranks, ties shared, with Nemenyi's critical difference; None where there are no blocks.

    CD = q √(M(M + 1)/(6N)) of M methods over N blocks, with q the quantile of the range of M
    standard normals over √2.

    Blocks are taken to be independent. Clients are not quite: those of a repeat share one training.
    So a run that is lucky for all its clients counts N times, and CD is too small for what a new
    run would do. Ranks of two methods depend on which others are there, and forget by how much one
    is better: they are a second look, beside the intervals.
    """
    methods = outcomes.methods
    accuracies = np.array([np.concatenate(outcomes.accuracies(method)) for method in methods])
    accuracies = accuracies[:, ~np.isnan(accuracies).any(0)].round(12)
    blocks = accuracies.shape[1]
    if blocks == 0 or len(methods) < 2:
        return None
    means = stats.rankdata(-accuracies, axis=0).mean(1)
    m = len(methods)
    q = float(stats.studentized_range.ppf(level, m, np.inf)) / np.sqrt(2)
    critical = float(q * np.sqrt(m * (m + 1) / (6 * blocks)))
    equal = bool(np.all(accuracies == accuracies[0]))  # every rank a tie, no statistic
    p = float("nan") if m < 3 else 1.0
    if m > 2 and not equal:
        p = float(stats.friedmanchisquare(*accuracies).pvalue)
    return Ranks(dict(zip(methods, means.tolist(), strict=True)), critical, blocks, p)
