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

NEVER = 1e-6  # share of a class that is said not to occur


def shares(count: Num[np.ndarray, "*k d"]) -> Float[np.ndarray, "*k d"]:
    """π_c = n_c / Σ n, of each row the same for all d classes where there are no samples.

    Noise may have made private counts negative: those are taken for 0.
    """
    positive = np.maximum(np.asarray(count, np.float64), 0.0)
    total = positive.sum(axis=-1, keepdims=True)
    even = np.full(positive.shape, 1.0 / positive.shape[-1])
    np.divide(positive, total, out=even, where=total > 0)
    return even


def log_prior_ratio(
    own: Num[np.ndarray, "*k d"], everybody: Float[np.ndarray, "*#k d"], smoothing: float
) -> Float[np.ndarray, "*k d"]:
    """Log p_k(c)/π_c from a client's class counts and everybody's shares π.

    ``smoothing`` is ε > 0, in samples per class. Several rows of counts are taken at once, with
    the same shares or with a row each.
    """
    pseudo = smoothing * own.shape[-1]
    expected = np.zeros(own.shape)
    np.divide(own, everybody, out=expected, where=(everybody > 0) & (own > 0))
    ratio = (expected + pseudo) / (own.sum(axis=-1, keepdims=True) + pseudo)
    return np.log(ratio)


def prior(
    own: Num[np.ndarray, "*k d"], everybody: Float[np.ndarray, "*#k d"], smoothing: float
) -> Float[np.ndarray, "*k d"]:
    """p_k: the client's class shares, drawn to everybody's; they add up to 1."""
    pseudo = smoothing * own.shape[-1]
    return (own + pseudo * everybody) / (own.sum(axis=-1, keepdims=True) + pseudo)


def log_share_ratio(
    wanted: Float[np.ndarray, "*k d"], everybody: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "*k d"]:
    """Log q(c)/π_c for shares q that are known and not counted; 0 where nobody has the class.

    A share of 0 is taken for ``NEVER``, so that the class is next to impossible and the number
    finite.
    """
    known = np.maximum(wanted, NEVER)
    ratio = np.ones(known.shape)
    np.divide(known, everybody, out=ratio, where=np.broadcast_to(everybody > 0, known.shape))
    return np.log(ratio)
