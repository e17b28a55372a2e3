"""A method against another, client by client: interval, test, and who gains and who loses.

Differences are of the same clients on the same test samples, so what clients have in common, hard
data or few, goes out. Of these samples counts are known, not which of them a model is right on. A
client's difference has the right noise all the same: intervals come from how differences scatter
over clients, not from a binomial of each, for which the pairing would have to be known. Only where
one client is all there is, the least favorable pairing stands in
(:func:`pfl.report.statistics.intervals.of_counted_difference`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from pfl.report.statistics.flips import flip_p
from pfl.report.statistics.intervals import LEVEL, UNKNOWN, Interval, of_counted_difference
from pfl.report.statistics.outcomes import Outcomes, mean_of
from pfl.report.statistics.spread import Luck, of_clients, of_repeats, of_runs


@dataclass(frozen=True)
class Effect:
    """Over all clients of all repeats: how many gain by a method, lose or stay, and the extremes.

    ``least`` is the smallest difference of a client, below 0 if some client loses, and ``most``
    the largest. A client with 30 test samples changes by 3 points if one of them does: the numbers
    describe these clients, they are no estimates. NaN where no client has both methods.
    """

    gain: int
    lose: int
    same: int
    least: float
    most: float


def difference(outcomes: Outcomes, method: str, baseline: str, level: float = LEVEL) -> Interval:
    """D̄ = 1/R Σ_r 1/K_r Σ_k (a_rk − b_rk) ± t √(V_clients + V_luck).

    Over the clients that have both. V_luck is what repeats differ by beyond what clients explain;
    with one repeat, what the training seeds of both methods differ by. t has the degrees of freedom
    of both parts together (:mod:`pfl.report.statistics.spread`). The interval is about new clients,
    as those of :mod:`pfl.report.statistics.accuracy`.
    """
    values = _paired(outcomes, method, baseline)
    if not values:
        return UNKNOWN
    mean = mean_of(values)
    spread = of_clients(values) + _luck(outcomes, method, baseline, values)
    if spread.variance == 0 and (sum(map(len, values)) == 1 or mean != 0):
        return _by_counts(outcomes, method, baseline, level)
    half = spread.reach(level)
    return Interval(mean, max(-1.0, mean - half), min(1.0, mean + half))


def p_of_difference(outcomes: Outcomes, method: str, baseline: str, seed: int) -> float:
    """Two-sided p of no difference: by flipping signs of clients; NaN where no client has both.

    Flips are valid if clients are independent given equal methods: a training that is lucky for all
    of its clients at once looks like a better method. So where repeats or seeds do differ by more
    than their clients explain, p is at least that at which the interval of :func:`difference` ends
    at 0.
    """
    values = _paired(outcomes, method, baseline)
    if not values:
        return float("nan")
    weighted = np.concatenate([vector / (len(vector) * len(values)) for vector in values])
    p = flip_p(weighted, seed)
    luck = _luck(outcomes, method, baseline, values)
    if luck.variance == 0:
        return p
    return max(p, (of_clients(values) + luck).p(mean_of(values)))


def effect(outcomes: Outcomes, method: str, baseline: str) -> Effect:
    """Who gains by ``method`` and who loses, against ``baseline``."""
    values = np.concatenate([np.empty(0), *_paired(outcomes, method, baseline)])
    gain, lose = int(np.sum(values > 0)), int(np.sum(values < 0))
    least, most = (values.min(), values.max()) if len(values) else (np.nan, np.nan)
    return Effect(gain, lose, len(values) - gain - lose, float(least), float(most))


def _paired(outcomes: Outcomes, method: str, baseline: str) -> list[Float[np.ndarray, " _"]]:
    """Differences of the clients that have both, of the repeats that have such, sorted."""
    pairs = zip(outcomes.accuracies(method), outcomes.accuracies(baseline), strict=True)
    found = []
    for of_method, of_baseline in pairs:
        values = of_method - of_baseline
        values = values[~np.isnan(values)]
        values[np.abs(values) < 1e-12] = 0.0  # means over runs differ by rounding
        found.append(np.sort(values))
    return sorted((v for v in found if len(v)), key=lambda v: (len(v), *v.tolist()))


def _luck(
    outcomes: Outcomes, method: str, baseline: str, values: Sequence[Float[np.ndarray, " _"]]
) -> Luck:
    """What repeats, or the runs of both methods, differ by beyond what clients explain."""
    if len(outcomes.tested) > 1:
        return of_repeats(values)
    return _of_runs(outcomes, method) + _of_runs(outcomes, baseline)


def _of_runs(outcomes: Outcomes, method: str) -> Luck:
    (shares,) = outcomes.runs(method)
    return of_runs(shares[:, ~np.isnan(shares).any(0)])


def _by_counts(outcomes: Outcomes, method: str, baseline: str, level: float) -> Interval:
    """As if all samples were those of one client."""
    first, second, samples = 0.0, 0.0, 0
    pairs = zip(
        outcomes.accuracies(method), outcomes.accuracies(baseline), outcomes.tested, strict=True
    )
    for of_method, of_baseline, tested in pairs:
        both = ~np.isnan(of_method - of_baseline)
        first += float(of_method[both] @ tested[both])
        second += float(of_baseline[both] @ tested[both])
        samples += int(tested[both].sum())
    return of_counted_difference(first, second, samples, level)
