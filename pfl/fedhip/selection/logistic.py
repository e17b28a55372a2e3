"""Weights of given class scores by cross-entropy: a small convex problem, solved to the end.

    min_θ Σ_i −log softmax_{y_i}(Σ_j θ_j T_j,i) + Σ_j τ_j (θ_j − θ⁰_j)²,    θ ≥ 0,

for a few T_j, class scores of n samples. Many such problems of one shape are solved at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

STEPS = 50
HALVINGS = 30
DONE = 1e-6  # nats that another step may still gain
SUFFICIENT = 1e-4  # share of the promised gain that a step must keep [Armijo 1966]

Terms = Sequence[Float[np.ndarray, "#n #b d"]]


@dataclass(frozen=True)
class Fit:
    """Solutions of b problems.

    Attributes:
        weights: θ of each.
        objective: the least value of each, in nats; infinite where a score is not a number.
    """

    weights: Float[np.ndarray, "b j"]
    objective: Float[np.ndarray, " b"]


def fit(
    terms: Terms,
    labels: Int[np.ndarray, " n"],
    center: Float[np.ndarray, " j"],
    penalty: Float[np.ndarray, " j"],
) -> Fit:
    """θ by projected Newton steps from the center, for each of b problems.

    Notes:
        Bertsekas 1982, "Projected Newton methods for optimization problems with simple
        constraints": a weight that is 0 and would fall is held, the others take a Newton step, are
        cut off at 0, and the step is halved until it gains enough. The penalty makes the problem
        strictly convex, so there is one solution and steps end there, whatever the samples.
    """
    count = max(term.shape[1] for term in terms)
    sound = np.ones(count, bool)
    for term in terms:
        sound &= np.isfinite(term).all(axis=(0, 2))
    clean = [np.where(np.isfinite(term), term, 0.0) for term in terms]
    weights = np.repeat(center[None, :], count, axis=0)
    value, probability = _value(clean, labels, weights, center, penalty)
    for _ in range(STEPS):
        slope, curvature = _derivatives(clean, labels, probability, weights, center, penalty)
        held = (weights <= 0.0) & (slope > 0.0)
        step = _newton(slope, curvature, held)
        gain = -np.sum(slope * step, axis=1)
        if gain.max() <= DONE:
            break
        weights, value, probability = _descend(
            clean, labels, (weights, value, probability), step, gain, (center, penalty)
        )
    return Fit(weights, np.where(sound, value, np.inf))


def _value(
    terms: Terms,
    labels: Int[np.ndarray, " n"],
    weights: Float[np.ndarray, "b j"],
    center: Float[np.ndarray, " j"],
    penalty: Float[np.ndarray, " j"],
) -> tuple[Float[np.ndarray, " b"], Float[np.ndarray, "n b d"]]:
    """The objective and the probabilities."""
    scores = sum(weight[:, None] * term for weight, term in zip(weights.T, terms, strict=True))
    logits = np.asarray(scores - scores.max(axis=2, keepdims=True))
    own = logits[np.arange(len(labels)), :, labels]
    np.exp(logits, out=logits)
    total = logits.sum(axis=2)
    logits /= total[:, :, None]
    entropy = (np.log(total) - own).sum(axis=0)
    return entropy + (weights - center) ** 2 @ penalty, logits


def _derivatives(
    terms: Terms,
    labels: Int[np.ndarray, " n"],
    probability: Float[np.ndarray, "n b d"],
    weights: Float[np.ndarray, "b j"],
    center: Float[np.ndarray, " j"],
    penalty: Float[np.ndarray, " j"],
) -> tuple[Float[np.ndarray, "b j"], Float[np.ndarray, "b j j"]]:
    """Gradient Σ_i (E_p T_j − T_j,y) and Hessian Σ_i Cov_p(T_j, T_k), with the penalty's."""
    rows = np.arange(len(labels))
    means = [np.einsum("nbd,nbd->nb", probability, _wide(term, probability)) for term in terms]
    slope = np.stack(
        [
            (mean - term[rows, :, labels]).sum(axis=0)
            for mean, term in zip(means, terms, strict=True)
        ]
    ).T
    size = len(terms)
    curvature = np.zeros((len(weights), size, size))
    for j in range(size):
        weighted = probability * terms[j]
        for k in range(j, size):
            product = np.einsum("nbd,nbd->b", weighted, _wide(terms[k], probability))
            covariance = product - np.einsum("nb,nb->b", means[j], means[k])
            curvature[:, j, k] = curvature[:, k, j] = covariance
    slope += 2.0 * penalty * (weights - center)
    curvature[:, range(size), range(size)] += 2.0 * penalty
    return slope, curvature


def _wide(
    term: Float[np.ndarray, "#n #b d"], like: Float[np.ndarray, "n b d"]
) -> Float[np.ndarray, "n b d"]:
    return np.broadcast_to(term, like.shape)


def _newton(
    slope: Float[np.ndarray, "b j"],
    curvature: Float[np.ndarray, "b j j"],
    held: Bool[np.ndarray, "b j"],
) -> Float[np.ndarray, "b j"]:
    """−H⁻¹ g over the weights that are not held, 0 for these."""
    free = ~held
    system = np.where(free[:, :, None] & free[:, None, :], curvature, 0.0)
    size = slope.shape[1]
    system[:, range(size), range(size)] = np.where(
        held, 1.0, curvature[:, range(size), range(size)]
    )
    right = np.where(free, slope, 0.0)
    step: np.ndarray = -np.linalg.solve(system, right[:, :, None])[:, :, 0]
    return step


def _descend(
    terms: Terms,
    labels: Int[np.ndarray, " n"],
    here: tuple[np.ndarray, np.ndarray, np.ndarray],
    step: Float[np.ndarray, "b j"],
    gain: Float[np.ndarray, " b"],
    prior: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, objective and probabilities after the step, halved where it does not gain enough."""
    weights, value, probability = here
    length = np.ones(len(weights))
    for _ in range(HALVINGS):
        tried = np.maximum(weights + length[:, None] * step, 0.0)
        new, spread = _value(terms, labels, tried, *prior)
        short = new > value - SUFFICIENT * length * gain + DONE * 1e-3
        if not short.any():
            return tried, new, spread
        length = np.where(short, length / 2.0, length)
    kept = short
    return (
        np.where(kept[:, None], weights, tried),
        np.where(kept, value, new),
        np.where(kept[None, :, None], probability, spread),
    )
