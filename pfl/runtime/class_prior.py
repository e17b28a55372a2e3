"""How much more often a client has each class than everybody together: its class prior.

Under label shift a client k and everybody differ in how often classes occur, p_k(c) against π_c,
and not in what a class looks like. Then p_k(c | x) ∝ p(c | x) · p_k(c)/π_c, so that a model of all
becomes one of the client by adding log p_k(c)/π_c to its scores [Saerens, Latinne & Decaestecker
2002, "Adjusting the outputs of a classifier to new a priori probabilities", equation 2.4].

From n_c of its N_k samples a client estimates its prior as their shares, drawn to everybody's by
ε·d samples that are spread as everybody's are:

    p_k(c) = (n_c + ε d π_c) / (N_k + ε d),    p_k(c)/π_c = (n_c/π_c + ε d) / (N_k + ε d).

The ratio is positive and finite for every ε > 0, also where nobody has a class, and 1 everywhere
for a client without samples.
"""

import numpy as np
from jaxtyping import Float, Num


def shares(count: Num[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    """π_c = n_c / Σ n, the same for all d classes where there are no samples.

    Noise may have made private counts negative: those are taken for 0.
    """
    positive = np.maximum(np.asarray(count, np.float64), 0.0)
    total = positive.sum()
    return positive / total if total > 0 else np.full(len(positive), 1.0 / len(positive))


def log_prior_ratio(
    own: Num[np.ndarray, "*k d"], everybody: Float[np.ndarray, " d"], smoothing: float
) -> Float[np.ndarray, "*k d"]:
    """Log p_k(c)/π_c from a client's class counts and everybody's shares π.

    ``smoothing`` is ε > 0, in samples per class. Several rows of counts are taken at once.
    """
    pseudo = smoothing * own.shape[-1]
    expected = np.zeros(own.shape)
    np.divide(own, everybody, out=expected, where=(everybody > 0) & (own > 0))
    ratio = (expected + pseudo) / (own.sum(axis=-1, keepdims=True) + pseudo)
    return np.log(ratio)


def prior(
    own: Num[np.ndarray, "*k d"], everybody: Float[np.ndarray, " d"], smoothing: float
) -> Float[np.ndarray, "*k d"]:
    """p_k: the client's class shares, drawn to everybody's; they add up to 1."""
    pseudo = smoothing * own.shape[-1]
    return (own + pseudo * everybody) / (own.sum(axis=-1, keepdims=True) + pseudo)
