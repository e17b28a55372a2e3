"""All that a table says of each method, in one call."""

from collections.abc import Mapping
from dataclasses import dataclass

from pfl.errors import InputError
from pfl.report.statistics.accuracy import accuracy_intervals
from pfl.report.statistics.bold import bold
from pfl.report.statistics.difference import Effect, difference, effect, p_of_difference
from pfl.report.statistics.holm import holm
from pfl.report.statistics.intervals import Interval
from pfl.report.statistics.outcomes import Outcomes

SEED = 0  # of resampling; another moves the ends of intervals by a hundredth of their width or so


@dataclass(frozen=True)
class Against:
    """A method against the baseline.

    Attributes:
        difference: mean over clients, of the method less the baseline.
        p: of no difference, two-sided.
        corrected: by Holm, over all methods but the baseline.
        effect: who gains and who loses.
    """

    difference: Interval
    p: float
    corrected: float
    effect: Effect


@dataclass(frozen=True)
class Line:
    """One method: mean, worst tenth, whether it is in bold; None against itself."""

    mean: Interval
    worst: Interval
    bold: bool
    against: Against | None


def summarize(outcomes: Outcomes, baseline: str, seed: int = SEED) -> dict[str, Line]:
    """A line a method, in the order given.

    Raises:
        InputError: there is no such baseline.
    """
    if baseline not in outcomes.right:
        raise InputError(
            f"There is no method {baseline} to compare with: set compare.baseline to one of "
            f"{', '.join(outcomes.methods)}."
        )
    others = [method for method in outcomes.methods if method != baseline]
    p = {method: p_of_difference(outcomes, method, baseline, seed) for method in others}
    corrected = holm({method: value for method, value in p.items() if value == value})
    against: Mapping[str, Against] = {
        method: Against(
            difference(outcomes, method, baseline),
            p[method],
            corrected.get(method, float("nan")),
            effect(outcomes, method, baseline),
        )
        for method in others
    }
    marked = bold(outcomes)
    return {
        method: Line(
            *accuracy_intervals(outcomes, method, seed), method in marked, against.get(method)
        )
        for method in outcomes.methods
    }
