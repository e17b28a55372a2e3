"""One head of several: a weighted sum of the best of each family, by leave-one-out.

Stacking [Wolpert 1992; Breiman 1996]: with the left-out, calibrated scores of each member for
terms, weights ≥ 0 of least cross-entropy. Choosing one family by the same numbers is the special
case of one weight; a sum loses less where clients are too small to tell families apart.

The penalty draws to half of each of the first two members with ``PENALTY`` nats a unit squared, so
that a client leaves them when some dozens of samples say so.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from pfl.fedhip.selection.logistic import fit

PENALTY = 32.0


def stack(
    members: Sequence[Float[np.ndarray, "n d"]], labels: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " members"]:
    """The weight of each member, whose scores are calibrated; one member has the weight 1."""
    center = np.zeros(len(members))
    center[:2] = 1.0 / min(2, len(members))
    if len(members) == 1:
        return center
    terms = [scores[:, None, :] for scores in members]
    found = fit(terms, labels, center, np.full(len(members), PENALTY))
    return found.weights[0] if np.isfinite(found.objective[0]) else center
