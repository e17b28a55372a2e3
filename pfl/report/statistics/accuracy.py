"""Intervals of the mean over clients, and of the worst tenth, by a hierarchical bootstrap.

**What they are about.** New clients of the same population (the same scheme on the same data), as
many and tested on as many samples, in new repeats of the same pipeline. With one repeat they are
about new clients of *this* partition and training alone: what another partition or seed would
change as a whole, nobody can know from one. They are not about these very clients with new samples
(that interval is narrower).

**Levels.** In each repeat clients are drawn with replacement, then the test samples of each from
Binomial(n, ã). Accuracies that are measured already scatter by their samples' noise; a binomial on
top would count it twice [Davison & Hinkley 1997, §3.8]. So ã is a drawn to the mean,

    ã_k = ā + √(1 − λ) (a_k − ā),    λ = min(1, mean_k[a_k(1 − a_k)/(n_k − 1)] / s²(a)),

such that drawn accuracies have the variance of measured ones [reflated, Carpenter et al. 2003]. The
samples are drawn all the same, since the worst of ten clients is a number that draws of whole
clients never fall below.

**Few clients.** Percentiles are taken further out, at Φ(−t √(V/V*)) with t of Σ(K_r − 1) degrees of
freedom, V/V* = K/(K − 1) for equal repeats [Hesterberg 2015, expanded percentiles].

**Few repeats.** Drawing 2 or 3 repeats with replacement understates what repeats differ by (three
have ten different draws, and 2/3 of the variance), and overstates what clients do, whose noise is
in the repeats' means too. So repeats are not drawn: where means of repeats differ by more than
their clients explain, the rest of their variance, with R − 1 degrees of freedom, stretches the
interval (:mod:`pfl.report.statistics.spread`). So do several training seeds on one partition.

**Coverage** of 95 % intervals, clients beta-binomial, 10 to 60 samples each: see
``docs/statistics.md``. Where all clients have the same accuracy (all 100 %, or one client) nothing
scatters, and the interval is that of all samples pooled.

Sources: A. C. Davison, D. V. Hinkley, *Bootstrap Methods and their Application*, 1997; J. R.
Carpenter, H. Goldstein, J. Rasbash, *Applied Statistics* 52 (2003); T. C. Hesterberg, *The American
Statistician* 69 (2015); V. Saravanan, G. J. Berman, S. J. Sober, *NBDT* 2020.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from pfl.evaluation.metrics import WORST_SHARE
from pfl.report.statistics.intervals import LEVEL, UNKNOWN, Interval, of_counts
from pfl.report.statistics.outcomes import Outcomes
from pfl.report.statistics.spread import Luck, excess, of_clients, of_repeats, of_runs

CLIENTS = 500_000  # drawn, so that a method takes a fraction of a second
FEWEST, MOST = 2_000, 10_000  # draws; of few clients, the tails need many
AT_ONCE = 2**21  # drawn clients in memory


@dataclass(frozen=True)
class Repeat:
    """One method's clients in one repeat: those with test samples and a model."""

    runs: Float[np.ndarray, "runs clients"]
    tested: Int[np.ndarray, " clients"]

    @property
    def accuracy(self) -> Float[np.ndarray, " clients"]:
        """The mean over runs."""
        return self.runs.mean(0).round(12)  # in whatever order runs stand

    @property
    def worst(self) -> float:
        """The worst tenth of each run, mean over runs."""
        return float(_worst(self.runs).mean())


def accuracy_intervals(
    outcomes: Outcomes, method: str, seed: int, draws: int | None = None, level: float = LEVEL
) -> tuple[Interval, Interval]:
    """The mean over clients, and that over the worst tenth of them: means over repeats.

    The streams of chance follow from ``seed`` and the place of a repeat among the sorted ones, so
    that neither the order of clients and repeats nor other methods change anything. Unknown where
    the method has no tested client.
    """
    repeats = _repeats(outcomes, method)
    if not repeats:
        return UNKNOWN, UNKNOWN
    values = (
        float(np.mean([repeat.accuracy.mean() for repeat in repeats])),
        float(np.mean([repeat.worst for repeat in repeats])),
    )
    clients = of_clients([repeat.accuracy for repeat in repeats])
    if clients.variance == 0:
        return (_pooled(repeats, values[0], level),) * 2
    drawn = _draws(repeats, draws, seed)
    tail = _tail([len(repeat.tested) for repeat in repeats], clients.freedom, level)
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    parts = clients, Luck(float(drawn[:, 1].var()), clients.freedom)
    lucks = _lucks(repeats, parts[1].variance)
    mean, worst = (
        _around(Interval(values[i], float(low[i]), float(high[i])), parts[i], lucks[i], level)
        for i in range(2)
    )
    return mean, worst


def _repeats(outcomes: Outcomes, method: str) -> list[Repeat]:
    """The repeats that have clients, in an order that follows from what they hold."""
    found = []
    for shares, tested in zip(outcomes.runs(method), outcomes.tested, strict=True):
        kept = ~np.isnan(shares).any(0)
        if kept.any():
            found.append(Repeat(shares[:, kept], tested[kept]))
    return sorted(
        found, key=lambda repeat: sorted(zip(repeat.accuracy, repeat.tested, strict=True))
    )


def _lucks(repeats: Sequence[Repeat], of_worst: float) -> tuple[Luck, Luck]:
    """What runs or repeats add to the variance of the mean and of the worst tenth."""
    if len(repeats) == 1:
        (only,) = repeats
        return of_runs(only.runs), excess(_worst(only.runs).tolist(), 0.0)
    mean = of_repeats([repeat.accuracy for repeat in repeats])
    return mean, excess([repeat.worst for repeat in repeats], of_worst)


def _pooled(repeats: Sequence[Repeat], value: float, level: float) -> Interval:
    """Where clients do not scatter: all samples as one client's, and what runs differ by."""
    right = sum(float(repeat.accuracy @ repeat.tested) for repeat in repeats)
    pooled = of_counts(right, sum(float(repeat.tested.sum()) for repeat in repeats), level)
    luck = _lucks(repeats, 0.0)[0].reach(level)
    low, high = np.hypot(value - pooled.low, luck), np.hypot(pooled.high - value, luck)
    return Interval(value, max(0.0, float(value - low)), min(1.0, float(value + high)))


def _draws(repeats: Sequence[Repeat], draws: int | None, seed: int) -> Float[np.ndarray, "draws 2"]:
    """Mean and worst tenth, means over repeats, in each draw."""
    clients = sum(len(repeat.tested) for repeat in repeats)
    size = draws or max(FEWEST, min(MOST, CLIENTS // clients))
    return np.mean(
        [_drawn(r, size, np.random.default_rng([seed, i])) for i, r in enumerate(repeats)], axis=0
    )


def _drawn(repeat: Repeat, draws: int, rng: np.random.Generator) -> Float[np.ndarray, "draws 2"]:
    """The same of one repeat.

    Training again makes neither the choice of clients nor the noise of test samples smaller, which
    all runs share: the mean is of accuracies that are averaged over runs before samples are drawn,
    and the worst tenths of runs rise and fall together.
    """
    state = rng.bit_generator.state
    drawn = _resampled(repeat.accuracy, repeat.tested, draws, rng)
    if len(repeat.runs) > 1:
        place, worst = np.argsort(np.argsort(drawn[:, 1])), []
        for run in repeat.runs:
            rng.bit_generator.state = state
            worst.append(np.sort(_resampled(run, repeat.tested, draws, rng)[:, 1]))
        drawn[:, 1] = np.sort(worst, axis=0).mean(0)[place]
    return drawn


def _resampled(
    accuracy: Float[np.ndarray, " clients"],
    tested: Int[np.ndarray, " clients"],
    draws: int,
    rng: np.random.Generator,
) -> Float[np.ndarray, "draws 2"]:
    """Mean and worst tenth of drawn clients on drawn samples, drawn to their mean first."""
    order = np.lexsort((tested, accuracy))
    samples, shares = tested[order], drawn_in(accuracy, tested)[order]
    rows = max(1, AT_ONCE // len(order))
    parts = []
    for start in range(0, draws, rows):
        chosen = rng.integers(0, len(order), (min(rows, draws - start), len(order)))
        again = rng.binomial(samples[chosen], shares[chosen]) / samples[chosen]
        parts.append(np.stack([again.mean(1), _worst(again)], axis=1))
    return np.concatenate(parts)


def drawn_in(
    accuracy: Float[np.ndarray, " clients"], tested: Int[np.ndarray, " clients"]
) -> Float[np.ndarray, " clients"]:
    """ã: accuracies with as much less variance as their test samples' noise has.

    A client of one sample says nothing of its noise; it counts as one of two. One client, or
    clients that are all alike, stay as they are.
    """
    mean, variance = accuracy.mean(), accuracy.var(ddof=1) if len(accuracy) > 1 else 0.0
    if variance <= 0:
        return accuracy
    noise = np.mean(accuracy * (1 - accuracy) / np.maximum(tested - 1, 1))
    return mean + np.sqrt(1 - min(1.0, noise / variance)) * (accuracy - mean)


def _worst(shares: Float[np.ndarray, "some clients"]) -> Float[np.ndarray, " some"]:
    """:func:`pfl.evaluation.metrics.worst_decile` of each line."""
    count = -(-shares.shape[1] // WORST_SHARE)
    return np.partition(shares, count - 1, axis=1)[:, :count].mean(1)


def _tail(clients: Sequence[int], freedom: int | float, level: float) -> float:
    """Φ(−t √(V/V*)), the percentile at which an interval from few clients ends.

    V has Σ_r 1/K_r where the variance V* of draws has Σ_r (K_r − 1)/K_r².
    """
    ratio = sum(1 / k for k in clients) / sum((k - 1) / k**2 for k in clients)
    t = special.stdtrit(freedom, (1 + level) / 2)
    return float(special.ndtr(-t * np.sqrt(ratio)))


def _around(bounds: Interval, clients: Luck, luck: Luck, level: float) -> Interval:
    """Bounds from the draws of clients, stretched for what luck adds, within 0 … 1."""
    value = bounds.value
    down, up = max(0.0, value - bounds.low), max(0.0, bounds.high - value)
    if luck.variance > 0:
        alone, both = clients.reach(level), (clients + luck).reach(level)
        down, up = (d * both / alone if alone else both for d in (down, up))
    return Interval(value, max(0.0, value - down), min(1.0, value + up))
