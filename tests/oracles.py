"""Naive textbook versions of the maths: slow, obvious, and written without the library."""

from fractions import Fraction

import numpy as np


def one_hot(labels, classes):
    return np.eye(classes)[labels]


def ridge(features, labels, classes, beta):
    """Min ‖Y − F W‖² + β‖W‖² by least squares on stacked rows."""
    return weighted_ridge([(features, labels, 1.0)], classes, beta)


def weighted_ridge(parts, classes, beta):
    """Minimize Σ w ‖Y − F W‖² + β‖W‖² over (F, labels, w), by least squares on stacked rows."""
    width = parts[0][0].shape[1]
    left = [np.sqrt(w) * f for f, _, w in parts] + [np.sqrt(beta) * np.eye(width)]
    right = [np.sqrt(w) * one_hot(y, classes) for _, y, w in parts] + [np.zeros((width, classes))]
    return np.linalg.lstsq(np.vstack(left), np.vstack(right), rcond=None)[0]


def anchored(anchor, features, labels, rho):
    """Min ‖Y − F W‖² + ρ‖W − G‖² for an anchor G, by least squares on stacked rows."""
    width, classes = anchor.shape
    left = np.vstack([features, np.sqrt(rho) * np.eye(width)])
    right = np.vstack([one_hot(labels, classes), np.sqrt(rho) * anchor])
    return np.linalg.lstsq(left, right, rcond=None)[0]


def discriminant(everybody, own, classes, ridge, pull):
    """Means of classes, drawn to everybody's, and the ridged scatter, sample by sample."""
    (features, labels), (own_features, own_labels) = everybody, own
    center = sum(features) / len(features)
    scatter, means = ridge * np.eye(features.shape[1]), []
    for c in range(classes):
        rows, mine = features[labels == c], own_features[own_labels == c]
        mean = sum(rows) / len(rows) if len(rows) else center
        for row in rows:
            scatter = scatter + np.outer(row - mean, row - mean)
        drawn = (sum(mine) + pull * mean) / (len(mine) + pull) if np.isfinite(pull) else mean
        means.append(drawn)
    return np.array(means), scatter


def log_densities(features, means, scatter):
    """Of Gaussians, up to what all classes share: minus half the squared distance."""
    rows = []
    for x in features:
        rows.append([-0.5 * (x - mean) @ np.linalg.solve(scatter, x - mean) for mean in means])
    return np.array(rows).reshape(len(features), len(means))


def penalized_entropy(weights, terms, labels, center, penalty):
    """Cross-entropy of weighted scores, sample by sample, and its penalty; and its gradient.

    The terms are (n, d).
    """
    value = float(np.sum(penalty * (weights - center) ** 2))
    slope = 2 * penalty * (weights - center)
    for i, label in enumerate(labels):
        rows = np.array([term[i] for term in terms])
        scores = weights @ rows
        top = scores.max()
        value += top + np.log(np.sum(np.exp(scores - top))) - scores[label]
        probability = np.exp(scores - top) / np.sum(np.exp(scores - top))
        slope = slope + rows @ probability - rows[:, label]
    return value, slope


def objective(head, everybody, own, classes, alpha, beta):
    """FedHiP's objective (1) for a client's head, as three sums of squares."""
    (features, labels), (own_features, own_labels) = everybody, own
    loss = np.sum((one_hot(labels, classes) - features @ head) ** 2)
    loss += alpha * np.sum((one_hot(own_labels, classes) - own_features @ head) ** 2)
    return loss + beta * np.sum(head**2)


def gram(rows):
    """qᵀq entry by entry with Python's unbounded integers."""
    columns = [[int(v) for v in column] for column in rows.T]
    return [[sum(a * b for a, b in zip(x, y, strict=True)) for y in columns] for x in columns]


def is_probably_prime(n, rng):
    """Miller-Rabin with 20 random bases: wrong for a composite number with chance 4⁻²⁰."""
    if n % 2 == 0:
        return n == 2
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(20):
        power = pow(rng.randrange(2, n - 1), odd, n)
        if power != 1 and n - 1 not in (pow(power, 2**i, n) for i in range(twos)):
            return False
    return True


def rational_rank(rows):
    """Rank by elimination in fractions, which are exact."""
    rows = [[Fraction(value) for value in row] for row in np.asarray(rows).tolist()]
    rank = 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for i in range(rank + 1, len(rows)):
            share = rows[i][column] / rows[rank][column]
            rows[i] = [a - share * b for a, b in zip(rows[i], rows[rank], strict=True)]
        rank += 1
    return rank


def sign_map(rows, signs, shift, rectified):
    """round(W q / 2^shift) in whole numbers, half to even, saturated; and how many were."""
    result, saturated = [], 0
    for row in rows:
        mapped = []
        for column in signs.T:
            value = sum(int(w) * int(q) for w, q in zip(column, row, strict=True))
            value = round(Fraction(max(value, 0) if rectified else value, 2**shift))
            saturated += abs(value) > 32767
            mapped.append(min(max(value, -32767), 32767))
        result.append(mapped)
    return result, saturated
