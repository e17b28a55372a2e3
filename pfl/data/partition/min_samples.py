"""A minimum number of samples per client, by construction instead of by drawing again.

Both functions work on the counts per client and class, keep every class's total, and always end.
"""

import numpy as np
from jaxtyping import Bool, Float, Int


def top_up(
    count: Int[np.ndarray, "clients classes"],
    preference: Float[np.ndarray, "clients classes"],
    allowed: Bool[np.ndarray, "clients classes"],
    minimum: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, "clients classes"]:
    """Move samples to clients below ``minimum`` from the clients with the largest surplus.

    A needy client asks for its allowed classes in the order of its own ``preference`` (ties at
    random), which keeps clients as different as they were drawn. Whoever has more of the class
    than its own minimum needs gives, the largest surplus first. Nobody falls below the minimum by
    giving. When every class is allowed and there are ``clients · minimum`` samples, everybody has
    the minimum at the end; otherwise some may not, see :func:`reroute`.
    """
    count = count.copy()
    surplus = count.sum(1) - minimum
    for client in np.flatnonzero(surplus < 0):
        offered = (count[surplus > 0] > 0).any(0) & allowed[client]
        order = np.lexsort((rng.random(count.shape[1]), -preference[client]))
        for c in order[offered[order]]:
            given = _level(np.maximum(surplus, 0), count[:, c], -int(surplus[client]))
            given[client] -= given.sum()
            count[:, c] -= given
            surplus -= given
            if surplus[client] == 0:
                break
    return count


def _level(
    surplus: Int[np.ndarray, " clients"], available: Int[np.ndarray, " clients"], need: int
) -> Int[np.ndarray, " clients"]:
    """Take ``need`` samples, or as many as there are, one by one from the largest surplus.

    The closed form of the loop: the lowest level l ≥ 0 at which Σ_k min(max(s_k - l, 0), a_k) does
    not exceed the need, found by bisection, then one more from some of those above l - 1.
    """
    low, high = -1, int(surplus.max())
    while high - low > 1:
        middle = (low + high) // 2
        if np.minimum(np.maximum(surplus - middle, 0), available).sum() > need:
            low = middle
        else:
            high = middle
    taken: np.ndarray = np.minimum(np.maximum(surplus - high, 0), available)
    if high > 0:
        more = (surplus >= high) & (available > taken)
        taken[np.flatnonzero(more)[: need - int(taken.sum())]] += 1
    return taken


def reroute(
    count: Int[np.ndarray, "clients classes"],
    allowed: Bool[np.ndarray, "clients classes"],
    minimum: int,
) -> Int[np.ndarray, "clients classes"] | None:
    """Meet ``minimum`` through chains of clients, or return None when no deal at all can.

    Where a needy client shares no class with one that has a surplus, samples pass along: A gives
    cats to B, B gives dogs to C. The chains are a maximum flow from surpluses to needs over the
    edges client → class (as many as it has) → client (when allowed), hence None is a proof.
    """
    clients, classes = count.shape
    surplus = count.sum(1) - minimum
    need = int(np.maximum(-surplus, 0).sum())
    if need == 0:
        return count
    # Imported here because it takes long, and few partitions come to it.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import maximum_flow

    source, sink, person = 0, 1, 2 + np.arange(clients)
    giver, taker = np.flatnonzero(surplus > 0), np.flatnonzero(surplus < 0)
    holder, held_class = np.nonzero(count)
    asker, allowed_class = np.nonzero(allowed)
    first = 2 + clients
    edges = [
        (np.full(len(giver), source), person[giver], surplus[giver]),
        (person[taker], np.full(len(taker), sink), -surplus[taker]),
        (person[holder], first + held_class, count[holder, held_class]),
        (first + allowed_class, person[asker], np.full(len(asker), need)),
    ]
    tail, head, capacity = (np.concatenate(column) for column in zip(*edges, strict=True))
    nodes = first + classes
    graph = coo_array((capacity.astype(np.int32), (tail, head)), shape=(nodes, nodes)).tocsr()
    result = maximum_flow(graph, source, sink)
    if result.flow_value < need:
        return None
    moved: np.ndarray = result.flow[2:first, first:].toarray()
    return count - moved
