"""The spectrum of a Gram matrix in few numbers: how well its ridge regression is conditioned."""

import numpy as np
from jaxtyping import Float

from pfl.ridge.linalg import spectrum


def eigenvalues(gram: Float[np.ndarray, "m m"], beta: float = 0.0) -> dict[str, object]:
    """Extremes, rank and condition number of A = FᵀF, and the latter of A + βI.

    The rank counts λ > m·ε·λ_max: smaller ones cannot be told from 0 in float64. With β also the
    degrees of freedom Σ λ/(λ + β), the number of directions that the ridge leaves free.
    """
    values = spectrum(gram).values
    largest = float(values.max(initial=0.0))
    resolved = len(values) * np.finfo(np.float64).eps * largest
    kept = values[values > resolved]
    facts: dict[str, object] = {
        "largest-eigenvalue": largest,
        "smallest-eigenvalue-above-0": float(kept.min()) if kept.size else None,
        "rank": len(kept),
        "of": len(values),
        "condition-number": largest / float(kept.min()) if len(kept) == len(values) else None,
    }
    if beta > 0:
        facts["condition-number-with-beta"] = (largest + beta) / (float(values.min()) + beta)
        facts["degrees-of-freedom-with-beta"] = float(np.sum(values / (values + beta)))
    return facts
