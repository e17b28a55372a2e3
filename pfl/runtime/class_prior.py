"""How much more often a client has each class than everybody together: its class prior.

Under label shift a client k and everybody differ in how often classes occur, p_k(c) against π_c,
and not in what a class looks like. Then p_k(c | x) ∝ p(c | x) · p_k(c)/π_c, so that a model of all
becomes one of the client by adding log p_k(c)/π_c to its scores [Saerens, Latinne & Decaestecker
2002, "Adjusting the outputs of a classifier to new a priori probabilities", equation 2.4].

From n_c of its N_k samples a client estimates its prior as their shares, drawn to everybody's by
A = ε·d samples that are spread as everybody's are:

    p_k(c) = (n_c + A π_c) / (N_k + A),    p_k(c)/π_c = (n_c/π_c + A) / (N_k + A).

The ratio is positive and finite for every A > 0, also where nobody has a class, and 1 everywhere
for a client without samples.

That is the mean of p_k given the counts if p_k was drawn from a Dirichlet distribution around π of
concentration A, small where clients differ. A follows from the counts themselves, whose probability
is Polya's,

    P(n | A) = Γ(A)/Γ(A + N_k) Π_c Γ(n_c + A π_c)/Γ(A π_c),

by Bayes' rule over ``CONCENTRATIONS``, equally likely beforehand: five samples of one class say
that the client is peculiar, five of five classes that it is like everybody.
"""

import numpy as np
from jaxtyping import Float, Num
from scipy.special import gammaln

CONCENTRATIONS = tuple(10.0 ** (j / 2) for j in range(-2, 7))  # 0.1 … 1,000 samples
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
    own: Num[np.ndarray, "*k d"], everybody: Float[np.ndarray, "*#k d"], smoothing: float | None
) -> Float[np.ndarray, "*k d"]:
    """Log p_k(c)/π_c from a client's class counts and everybody's shares π.

    ``smoothing`` is ε > 0, in samples per class; None for what the counts say of A. Several rows of
    counts are taken at once, with the same shares or with a row each.
    """
    expected = np.zeros(own.shape)
    np.divide(own, everybody, out=expected, where=(everybody > 0) & (own > 0))
    samples = own.sum(axis=-1, keepdims=True)
    if smoothing is not None:
        pseudo = smoothing * own.shape[-1]
        return np.log((expected + pseudo) / (samples + pseudo))
    pairs = zip(CONCENTRATIONS, _posterior(own, everybody), strict=True)
    ratio = sum(weight * (expected + a) / (samples + a) for a, weight in pairs)
    return np.log(np.asarray(ratio))


def _posterior(
    own: Num[np.ndarray, "*k d"], everybody: Float[np.ndarray, "*#k d"]
) -> Float[np.ndarray, "a *k 1"]:
    """P(A | n) for each of ``CONCENTRATIONS``."""
    held = (own > 0) & (everybody > 0)
    share, count = np.where(held, everybody, 1.0), np.where(held, own, 0)
    samples = own.sum(axis=-1)
    evidence = np.stack(
        [
            gammaln(a) - gammaln(a + samples)
            + np.where(held, gammaln(count + a * share) - gammaln(a * share), 0.0).sum(axis=-1)
            for a in CONCENTRATIONS
        ]
    )  # fmt: skip
    weight = np.exp(evidence - evidence.max(axis=0))
    result: np.ndarray = (weight / weight.sum(axis=0))[..., None]
    return result


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
