"""Cutting classes into parts of given weights: exact, unbiased, every part floor or ceiling."""

import numpy as np
from jaxtyping import Int


def apportion(
    total: int, weights: Int[np.ndarray, " clients"], rng: np.random.Generator
) -> Int[np.ndarray, " clients"]:
    """Cut ``total`` into whole parts with means q_k = total · w_k / Σw.

    Systematic sampling [Madow 1949] in whole numbers: with the clients in random order, cumulative
    weights W_k, and r uniform on {0, …, Σw - 1}, client k gets ⌊(total·W_k + r) / Σw⌋ -
    ⌊(total·W_{k-1} + r) / Σw⌋. So every part is ⌊q_k⌋ or ⌈q_k⌉, the parts sum to ``total``, and
    the mean of a part is exactly q_k. A client without weight gets nothing.

    ``total`` is below 2³⁰; weights are whole numbers ≥ 0 with a positive sum below 2³³.
    """
    order = rng.permutation(len(weights))
    cumulative = np.cumsum(weights[order], dtype=np.int64)
    whole = cumulative[-1]
    edges = (total * cumulative + rng.integers(whole)) // whole
    parts = np.empty(len(weights), np.int64)
    parts[order] = np.diff(edges, prepend=0)
    return parts


def assign(
    label: Int[np.ndarray, " n"],
    count: Int[np.ndarray, "clients classes"],
    rng: np.random.Generator,
) -> Int[np.ndarray, " n"]:
    """Give client k ``count[k, c]`` random samples of each class c; return every sample's client.

    A column of ``count`` sums to the samples of its class, or to zero: then the samples of that
    class belong to nobody (-1).
    """
    clients, classes = count.shape
    shuffled = rng.permutation(len(label))
    order = shuffled[np.argsort(label[shuffled], kind="stable")]
    dealt = order[count.sum(0)[label[order]] > 0]
    owner = np.full(len(label), -1, np.int64)
    owner[dealt] = np.repeat(np.tile(np.arange(clients), classes), count.T.ravel())
    return owner


def deal_in_proportion(
    count: Int[np.ndarray, "clients classes"],
    label: Int[np.ndarray, " n"],
    rng: np.random.Generator,
) -> Int[np.ndarray, " n"]:
    """Deal samples, class by class, in proportion to what the clients already hold.

    Client k gets ⌊q⌋ or ⌈q⌉ of the T_c samples of class c, where q = T_c · count_kc / Σ_j count_jc
    is also the mean. Samples of a class that nobody holds belong to nobody (-1). This is how test
    sets follow training sets.
    """
    size = np.bincount(label, minlength=count.shape[1])
    parts = np.zeros(count.shape, np.int64)
    for c in np.flatnonzero((size > 0) & (count.sum(0) > 0)):
        parts[:, c] = apportion(int(size[c]), count[:, c], rng)
    return assign(label, parts, rng)
