"""Which cells of a table are bold: the best, and all that cannot be told apart from it."""

import math

from pfl.report.statistics.difference import difference
from pfl.report.statistics.intervals import LEVEL
from pfl.report.statistics.outcomes import Outcomes, mean_of


def bold(outcomes: Outcomes, level: float = LEVEL) -> set[str]:
    """The method of the largest mean, and those whose interval of the difference to it holds 0.

    Since the best is chosen among all M methods, these intervals are of level
    1 − (1 − level)/(M − 1) [Bonferroni]: with 95 %, the method that is truly best is among the
    bold ones. Methods with equal results are equally bold, and so are those that share no client
    with the best: nothing says that they are worse. A method without a tested client never is.
    """
    means = {method: _mean(outcomes, method) for method in outcomes.methods}
    means = {method: mean for method, mean in means.items() if not math.isnan(mean)}
    if len(means) < 2:
        return set(means)
    best = max(sorted(means), key=lambda method: means[method])
    strict = 1 - (1 - level) / (len(means) - 1)
    return {best} | {
        method
        for method in means
        if method != best and not difference(outcomes, best, method, strict).low > 0
    }


def _mean(outcomes: Outcomes, method: str) -> float:
    known = [values[values == values] for values in outcomes.accuracies(method)]
    return mean_of([values for values in known if len(values)])
