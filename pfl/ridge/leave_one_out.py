"""Leave-one-out residuals of a ridge fit from the fit itself [Allen 1974].

For a weighted ridge fit with the system matrix H in which sample i has weight w and residual e_i,
taking the sample out leaves e_i / (1 − h_i) of it, with its leverage h_i = w f_iᵀH⁻¹f_i
(Sherman-Morrison).
"""

import numpy as np
from jaxtyping import Float


def left_out(
    errors: Float[np.ndarray, "*values d"],
    rest: Float[np.ndarray, "*values"],
    noise: Float[np.ndarray, "..."],
) -> Float[np.ndarray, "*values d"]:
    """E / (1 − h) from e and ``rest`` = 1 − h; NaN where that is no more than noise.

    Where a leverage is 1 up to rounding, nothing but a tiny ridge says how the sample's direction
    is weighed without it, or noise hides the sample in the sums. A head with such a residual cannot
    be judged and is not chosen.
    """
    return errors / np.where(rest > noise, rest, np.nan)[..., None]
