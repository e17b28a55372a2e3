"""The learning rate over training: linear up, then half a cosine down to 0."""

import math


def peak_rate(base: float, batch: int) -> float:
    """The rate for batches of ``batch`` images: base · batch / 256, the linear scaling rule.

    [Goyal et al., arXiv 1706.02677, as used in arXiv 2111.06377, appendix A.]
    """
    return base * batch / 256


def learning_rate(time: float, peak: float, warmup: float, epochs: int) -> float:
    """The rate at ``time``, counted in epochs from the start, 0 ≤ time ≤ epochs.

    peak · t/w for t < w, then peak · ½ (1 + cos(π (t − w)/(T − w))).
    """
    if time < warmup:
        return peak * time / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (time - warmup) / max(epochs - warmup, 1e-9)))
