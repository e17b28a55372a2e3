"""All clients' affine heads as one classifier, for samples that are no client's in particular.

CD2-pFed's new and external tests [arXiv 2204.03880, Section 4.1] take an ensemble of the clients'
models and do not say which. For heads of the scores z_1 … z_K three make sense:

- mean score: argmax of Σ_k z_k, which is one head, the average of all; the scores being calibrated
  log-probabilities up to a constant, it is the normalized geometric mean of the probabilities;
- vote: the class that most heads choose, the lower one on a tie;
- weight average: argmax of Σ_k N_k z_k, as trained methods average weights.

Scores are those with even shares of all classes in place of each client's prior. Clients count the
same in the first two, as in :mod:`pfl.training.evaluation`; those that left do not count.
"""

import numpy as np
from jaxtyping import Bool, Int

from pfl.evaluation.scoring import HeadGroup, HeadRange

RANGE = 16  # heads read at once


def averages(
    heads: HeadRange,
    samples: Int[np.ndarray, " clients"],
    stayed: Bool[np.ndarray, " clients"],
    shape: tuple[int, int],
) -> HeadGroup:
    """The averages of heads with equal weights and with weights N_k, summed in float64.

    ``samples`` are N_k, 0 for a client that left; not all of them are 0. ``shape`` is (m, d).
    """
    weights = np.stack([stayed / stayed.sum(), samples / samples.sum()])
    total, bias = np.zeros((2, *shape)), np.zeros((2, shape[1]))
    for start in range(0, len(samples), RANGE):
        stop = min(start + RANGE, len(samples))
        chosen, group = stayed[start:stop], heads(start, stop)
        part = weights[:, start:stop][:, chosen]
        total += np.tensordot(part, group.weight[chosen].astype(np.float64), axes=1)
        bias += part @ group.bias[chosen].astype(np.float64)
    narrow = bias.astype(np.float32)
    return HeadGroup(total.astype(np.float32), narrow, narrow)
