"""Who masks with whom: everybody, or with many clients a random circulant graph.

Masks between all pairs cost each client K − 1 of them. J. Bell et al., Secure single-server
aggregation with (poly)logarithmic overhead (CCS 2020), let it mask with k others: the clients stand
in random order on a ring, and each is the neighbor of the k/2 before and after it.
"""

import math
from fractions import Fraction

import numpy as np

from pfl.errors import InputError

COMPLETE = 100  # clients up to which everybody is everybody's neighbor
COLLUDING = Fraction(1, 5)  # of the clients, that may join with the server
LOST = Fraction(1, 10)  # of the clients, that may be lost during the sum
DISCLOSURE = Fraction(1, 2**40)  # chance that more is disclosed than the sum, at most
REFUSAL = Fraction(1, 2**20)  # chance that the sum must be refused, at most


def threshold(neighbors: int) -> int:
    """Shares t that give back a client's secret: two thirds of its neighbors, rounded up."""
    return -(-2 * neighbors // 3)


def enough(clients: int) -> int:
    """The neighbors k that each of K clients needs: all up to 100 clients, then O(log K)."""
    if clients <= COMPLETE:
        return clients - 1
    sparse = range(2, clients - 1, 2)
    return next((k for k in sparse if _safe(clients, k)), clients - 1)


def _safe(clients: int, k: int) -> bool:
    """Whether both chances are below their bounds; see ``docs/secure-sum.md``."""
    return disclosure(clients, k) <= DISCLOSURE and refusal(clients, k) <= REFUSAL


def disclosure(clients: int, k: int) -> Fraction:
    """Upper bound on the chance that the server and a fifth of the clients learn more than the sum.

    Either t of some client's neighbors collude, or, all colluding and lost clients being taken
    away, the others fall apart, and sums over the parts are seen. On the ring that needs two
    separate runs of k/2 clients that are taken away.
    """
    colluding = math.floor(COLLUDING * clients)
    away = colluding + math.floor(LOST * clients)
    recovered = clients * _tail(clients - 1, colluding, k, threshold(k))
    apart = math.comb(clients, 2) * Fraction(math.comb(away, k), math.comb(clients, k))
    return recovered + apart


def refusal(clients: int, k: int) -> Fraction:
    """Upper bound on the chance that fewer than t of some client's neighbors remain."""
    lost = math.floor(LOST * clients)
    return clients * _tail(clients - 1, lost, k, k - threshold(k) + 1)


def _tail(others: int, marked: int, drawn: int, least: int) -> Fraction:
    """P[at least ``least`` of ``drawn`` are marked] when drawn from ``others`` without return."""
    most = min(drawn, marked)
    ways = (
        math.comb(marked, j) * math.comb(others - marked, drawn - j) for j in range(least, most + 1)
    )
    return Fraction(sum(ways), math.comb(others, drawn))


def draw(
    clients: list[int], neighbors: int | None, rng: np.random.Generator
) -> dict[int, frozenset[int]]:
    """The neighbors of each client: symmetric, the same number for all, at random.

    Each gets at least so many ``neighbors`` (an odd number is rounded up, and there are at most
    K − 1), where it is None as many as :func:`enough` says. No client may foresee ``rng``, the
    source of the order on the ring.

    Raises:
        InputError: there are fewer than two clients, or fewer than two neighbors are asked for.
    """
    if len(clients) < 2:
        raise InputError(
            f"A secure sum needs two clients or more, not {len(clients)}: the sum of one is what "
            "it sent."
        )
    if neighbors is not None and neighbors < 2:
        raise InputError("Each client of a secure sum needs two neighbors or more, or auto.")
    k = enough(len(clients)) if neighbors is None else neighbors
    reach = (k + 1) // 2
    if 2 * reach >= len(clients) - 1:
        return {client: frozenset(clients) - {client} for client in clients}
    ring = rng.permutation(clients).tolist()
    steps = [*range(-reach, 0), *range(1, reach + 1)]
    return {
        client: frozenset(ring[(place + step) % len(ring)] for step in steps)
        for place, client in enumerate(ring)
    }
