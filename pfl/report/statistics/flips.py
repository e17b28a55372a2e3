"""The sign-flip test: whether clients' differences are as likely to be the other way round."""

from itertools import product

import numpy as np
from jaxtyping import Float

EXACT = 13  # differences other than 0, up to which all 2ⁿ patterns of signs are tried
FLIPS = 9_999
AT_ONCE = 2**21


def flip_p(weighted: Float[np.ndarray, " clients"], seed: int) -> float:
    """Two-sided p of T = |Σ_k x_k| if each x_k is as likely to be −x_k, independently.

    So it is if both methods are equally good for every client, whatever the distribution: swapping
    their names swaps the signs. p = #{signs: |Σ_k ±x_k| ≥ T}/2ⁿ over all patterns of the n that are
    not 0; above ``EXACT`` of them (1 + #)/(1 + ``FLIPS``) over random ones, which is valid too
    [Phipson & Smyth 2010]. With five clients no p is below 1/16.

    Args:
        weighted: differences, each times its weight in the mean: 1/(R K_r).
        seed: of random patterns. The order of the clients changes nothing.
    """
    values = np.sort(weighted[weighted != 0])
    if len(values) == 0:
        return 1.0
    # Equal sums may differ by rounding.
    least = abs(values.sum()) - 1e-9 * np.abs(values).sum()
    if len(values) <= EXACT:
        signs = np.array(list(product((-1.0, 1.0), repeat=len(values))))
        return float(np.mean(np.abs(signs @ values) >= least))
    rng = np.random.default_rng(seed)
    rows = max(1, AT_ONCE // len(values))
    reached = 0
    for start in range(0, FLIPS, rows):
        size = (min(rows, FLIPS - start), len(values))
        minus = rng.integers(0, 2, size, dtype=np.int8).astype(float)
        reached += int(np.sum(np.abs(values.sum() - 2 * (minus @ values)) >= least))
    return (1 + reached) / (1 + FLIPS)
