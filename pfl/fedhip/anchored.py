"""The anchored head: ridge regression on a client's own samples, drawn to the global head.

    min_P ‖Y_k − F_k P‖² + ρ ‖P − G‖²

Where FedHiP's objective (1) lets everybody's samples pull at the head, here only their outcome G
does. Of the server's answer a client needs G alone, m·d numbers instead of m² + m·d. As ρ → ∞ the
head becomes G, as ρ → 0 least squares on the own samples (of those, the nearest to G).
"""

import numpy as np
from jaxtyping import Float, Int

from pfl.fedhip.closed_form import one_hot
from pfl.ridge.linalg import ridge_fit


def anchored_head(
    anchor: Float[np.ndarray, "m d"],
    features: Float[np.ndarray, "n m"],
    labels: Int[np.ndarray, " n"],
    rho: float,
) -> Float[np.ndarray, "m d"]:
    """P_k = G + (F_kᵀF_k + ρI)⁻¹ F_kᵀ (Y_k − F_k G).

    With no samples it is G. G depends on sums only, so Theorem 3 holds for P_k as it does for (14).

    Args:
        anchor: G.
        features: F_k, the client's own training features.
        labels: their classes.
        rho: ρ > 0, in the units of squared features.

    Raises:
        InputError: ρ is not positive, or lost beside F_kᵀF_k in float64.
    """
    errors = one_hot(labels, anchor.shape[1]) - features @ anchor
    return anchor + ridge_fit(features, errors, rho, "rho")
