"""An interval around a number, and what samples alone say of one."""

import math
from dataclasses import dataclass

from scipy import special

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A number and how low and how high it may be; all are NaN where it is not known."""

    value: float
    low: float
    high: float

    @property
    def tells(self) -> bool:
        """Whether it is all above 0 or all below."""
        return self.low > 0 or self.high < 0


UNKNOWN = Interval(math.nan, math.nan, math.nan)


def of_counts(right: int | float, tested: int | float, level: float = LEVEL) -> Interval:
    """Accuracy on n samples of one kind, of which h are right [Clopper & Pearson 1934].

    From the quantiles of Beta(h, n − h + 1) and Beta(h + 1, n − h).
    """
    tail, wrong = (1 - level) / 2, tested - right
    low = float(special.betaincinv(right, wrong + 1, tail)) if right > 0 else 0.0
    high = float(special.betaincinv(right + 1, wrong, 1 - tail)) if wrong > 0 else 1.0
    return Interval(right / tested, low, high)


def of_counted_difference(
    first: int | float, second: int | float, tested: int | float, level: float = LEVEL
) -> Interval:
    """Difference d of two accuracies p, q on the *same* n samples, of which counts are known alone.

    Its variance is (b − d²)/n, where b is the share of samples on which one of both is right.
    Counts do not tell it: |d| ≤ b ≤ min(p + q, 2 − p − q). The interval is that of the largest b,
    so it is too wide for methods that are right on the same samples, and never too narrow for the
    pairing.
    """
    share, other = first / tested, second / tested
    value = share - other
    largest = min(share + other, 2 - share - other)
    z = float(special.ndtri((1 + level) / 2))
    half = z * math.sqrt(max(0.0, largest - value**2) / tested)
    return Interval(value, max(-1.0, value - half), min(1.0, value + half))
