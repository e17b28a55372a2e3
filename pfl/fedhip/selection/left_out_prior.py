"""A client's class prior as each of its samples would find it without itself.

The sample leaves the client's counts and everybody's: with label y both lose one of class y. So
there is one row of log p_k(c)/π_c for each label.
"""

import numpy as np
from jaxtyping import Float, Num

from pfl.runtime.class_prior import log_prior_ratio, shares


def everybody_with(
    own: Num[np.ndarray, " d"], total: Num[np.ndarray, " d"]
) -> Float[np.ndarray, " d"]:
    """Everybody's counts, which a client knows to be no less than its own, whatever the noise."""
    return np.maximum(total, own).astype(np.float64)


def own_log_ratio(
    own: Num[np.ndarray, " d"], total: Num[np.ndarray, " d"], smoothing: float | None
) -> Float[np.ndarray, " d"]:
    """Log p_k(c)/π_c from the counts of a client and of everybody."""
    return log_prior_ratio(own, shares(everybody_with(own, total)), smoothing)


def left_out_log_ratio(
    own: Num[np.ndarray, " d"], total: Num[np.ndarray, " d"], smoothing: float | None
) -> Float[np.ndarray, "d d"]:
    """Row y: the same without a sample of class y; 0 where the client has none."""
    held = np.flatnonzero(own > 0)
    leaving = np.eye(len(own))[held]
    everybody = shares(everybody_with(own, total) - leaving)
    ratio = np.zeros((len(own), len(own)))
    ratio[held] = log_prior_ratio(own - leaving, everybody, smoothing)
    return ratio
