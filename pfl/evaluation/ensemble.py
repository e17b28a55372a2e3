"""All clients' linear heads as one classifier, for samples that are no client's in particular.

CD2-pFed's new and external tests [arXiv 2204.03880, Section 4.1] take an ensemble of the clients'
models and do not say which. For ridge heads W_1 … W_K, whose scores fᵀW_k estimate class
probabilities but may be below 0 or above 1, three make sense:

- mean score: argmax of Σ_k fᵀW_k, which is one head, the average of all: fᵀ(Σ_k W_k);
- vote: the class that most heads choose, the lower one on a tie;
- weight average: argmax of fᵀ(Σ_k N_k W_k), as trained methods average weights.

There is no mean of probabilities or of their logarithms, since scores are none. Clients count the
same in the first two, as in :mod:`pfl.training.evaluation`; those that left do not count.
"""

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from pfl.evaluation.scoring import HeadRange

RANGE = 16  # heads read at once


def averages(
    heads: HeadRange,
    samples: Int[np.ndarray, " clients"],
    stayed: Bool[np.ndarray, " clients"],
    shape: tuple[int, int],
) -> Float32[np.ndarray, "2 m d"]:
    """The averages of heads with equal weights and with weights N_k, summed in float64.

    ``samples`` are N_k, 0 for a client that left; not all of them are 0. ``shape`` is (m, d).
    """
    weights = np.stack([stayed / stayed.sum(), samples / samples.sum()])
    total: Float[np.ndarray, "2 m d"] = np.zeros((2, *shape))
    for start in range(0, len(samples), RANGE):
        stop = min(start + RANGE, len(samples))
        chosen = stayed[start:stop]
        part = heads(start, stop)[chosen].astype(np.float64)
        total += np.tensordot(weights[:, start:stop][:, chosen], part, axes=1)
    return total.astype(np.float32)
