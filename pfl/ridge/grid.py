"""Round values over several powers of ten."""

import numpy as np


def decades(lowest: float, highest: float, steps: int) -> list[float]:
    """Values 10^(j/steps) from just below ``lowest`` to just above ``highest``, ascending.

    The exponents are whole multiples of 1/steps, so that grids over other ranges share values.
    """
    first = int(np.floor(steps * np.log10(lowest)))
    last = int(np.ceil(steps * np.log10(highest)))
    return [float(10.0 ** (j / steps)) for j in range(first, last + 1)]
