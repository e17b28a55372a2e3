"""How far a mean over clients and repeats may be off: the share of clients, and that of runs.

    a_rk = μ + u_r + v_rk

``v`` is what a client differs by, the noise of its test samples included, and ``u`` what all
clients of a repeat have in common: this partition as a whole, this training. Both have mean zero.

    Var ā = σ_u² / R + σ_v² Σ_r 1/K_r / R²

The first term is the *luck* of runs, the second that of clients.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import special

ROUNDING = 1e-24  # equal values have a mean that differs from them by as much, squared


@dataclass(frozen=True)
class Luck:
    """A part of the variance of a mean, and the degrees of freedom it was estimated with.

    Independent parts add up: variances do, and V²/f = Σ_i V_i²/f_i [Satterthwaite 1946]. A part of
    variance 0 adds nothing, whatever its freedom.
    """

    variance: float
    freedom: int | float

    def __add__(self, other: "Luck") -> "Luck":
        """Both together."""
        parts = [part for part in (self, other) if part.variance > 0]
        if len(parts) < 2:
            return parts[0] if parts else Luck(0.0, self.freedom + other.freedom)
        whole = sum(part.variance for part in parts)
        return Luck(whole, whole**2 / sum(part.variance**2 / part.freedom for part in parts))

    def reach(self, level: float) -> float:
        """Half the width of an interval: t_{f, (1+level)/2} √V; 0 for no variance."""
        if self.variance <= 0:
            return 0.0
        return float(special.stdtrit(self.freedom, (1 + level) / 2)) * math.sqrt(self.variance)

    def p(self, distance: float) -> float:
        """Two-sided p of so large a distance from 0; 1 for no variance."""
        if self.variance <= 0:
            return 1.0
        return 2 * float(special.stdtr(self.freedom, -abs(distance) / math.sqrt(self.variance)))


def of_clients(values: Sequence[Float[np.ndarray, " _"]]) -> Luck:
    """s_v² Σ_r 1/K_r / R² with s_v² = Σ_rk (a_rk − ā_r)² / Σ_r (K_r − 1).

    Variance 0 with freedom 0 where every repeat has a single client: nothing is known.
    """
    freedom = sum(len(vector) - 1 for vector in values)
    if freedom == 0:
        return Luck(0.0, 0)
    scatter = sum(float(np.sum((vector - vector.mean()) ** 2)) for vector in values)
    share = sum(1 / len(vector) for vector in values) / len(values) ** 2
    return Luck(0.0 if scatter < ROUNDING else scatter / freedom * share, freedom)


def excess(numbers: Sequence[float], explained: float) -> Luck:
    """What R numbers differ by beyond what is explained of their mean: max(0, s²/R − explained).

    s² is their sample variance. Of one number nothing can be known: variance 0.
    """
    if len(numbers) < 2:
        return Luck(0.0, 0)
    variance = float(np.var(numbers, ddof=1)) / len(numbers) - explained
    return Luck(variance if variance > ROUNDING else 0.0, len(numbers) - 1)


def of_repeats(values: Sequence[Float[np.ndarray, " _"]]) -> Luck:
    """The excess of the means of repeats over what clients explain."""
    return excess([float(vector.mean()) for vector in values], of_clients(values).variance)


def of_runs(shares: Float[np.ndarray, "runs clients"]) -> Luck:
    """The excess of the means of S training seeds on one partition, whose clients are the same.

    With a_sk = μ + u_s + v_k + e_sk, e explains s_e²/(SK), where s_e² is the mean square of the
    residuals a_sk − ā_s − ā_k + ā, with (S − 1)(K − 1) degrees of freedom.
    """
    runs, clients = shares.shape
    means = shares.mean(1)
    rest = shares - means[:, None] - shares.mean(0) + shares.mean()
    noise = float(np.sum(rest**2)) / max(1, (runs - 1) * (clients - 1))
    return excess(means.tolist(), noise / (runs * clients))
