"""What the server sends back to every client, as the artifact ``server.h5``.

``gram``, ``cross`` and ``count`` are the exact integer sums over all clients; ``head`` is the
global head G in float64. With few clients, or few others, sums tell much about each.
"""

from pathlib import Path

from pfl.artifacts import create, put, read, reading
from pfl.fedhip import Knowledge
from pfl.linalg import factor
from pfl.moments import Moments


def write_server(path: Path, total: Moments, knowledge: Knowledge) -> None:
    """Store the sums and the global head."""
    facts = {"beta": knowledge.beta, "step": total.step}
    with create(path, "server", facts, packages=("numpy", "scipy")) as file:
        put(file, "gram", total.gram)
        put(file, "cross", total.cross)
        put(file, "count", total.count)
        put(file, "head", knowledge.head)


def read_server(path: Path) -> tuple[Moments, Knowledge]:
    """Load the sums and what a client makes of them; the global head is read, not solved again."""
    with reading(path, "server") as file:
        total = Moments(
            read(file, "gram"), read(file, "cross"), read(file, "count"), float(file.attrs["step"])
        )
        beta, head = float(file.attrs["beta"]), read(file, "head")
    gram = total.gram_matrix()
    return total, Knowledge(gram, factor(gram, beta), total.cross_matrix(), head, beta)
