"""What the server sends back to every client, as the artifact ``server.h5``.

``gram``, ``cross`` and ``count`` are the exact integer sums over all clients; ``head`` is the
global head G in float64. With few clients, or few others, sums tell much about each.

The file depends on the sums and on how β came about (``beta-choice``: ``given``, or ``gcv``) alone,
not on whose sums they are or in which order they were added.
"""

from pathlib import Path

import h5py

from pfl.artifacts import Attribute, create, put, read, reading
from pfl.fedhip import Knowledge
from pfl.linalg import factor
from pfl.moments import Moments

GIVEN, GCV = "given", "gcv"


def write_server(path: Path, total: Moments, knowledge: Knowledge, automatic: bool = False) -> None:
    """Store the sums and the global head, and whether β was chosen by GCV."""
    facts: dict[str, Attribute] = {"beta": knowledge.beta, "step": total.step}
    facts["beta-choice"] = GCV if automatic else GIVEN
    with create(path, "server", facts, packages=("numpy", "scipy")) as file:
        put(file, "gram", total.gram)
        put(file, "cross", total.cross)
        put(file, "count", total.count)
        put(file, "head", knowledge.head)


def read_server(path: Path) -> tuple[Moments, Knowledge]:
    """Load the sums and what a client makes of them; the global head is read, not solved again."""
    with reading(path, "server") as file:
        total, head, beta = _sums(file), read(file, "head"), float(file.attrs["beta"])
    gram = total.gram_matrix()
    return total, Knowledge(gram, factor(gram, beta), total.cross_matrix(), head, beta)


def read_sums(path: Path) -> tuple[Moments, float | None]:
    """Load the sums and the β that they are to be solved with, None where GCV chooses it."""
    with reading(path, "server") as file:
        automatic = file.attrs["beta-choice"] == GCV
        return _sums(file), None if automatic else float(file.attrs["beta"])


def _sums(file: h5py.File) -> Moments:
    gram, cross, count = (read(file, name) for name in ("gram", "cross", "count"))
    return Moments(gram, cross, count, float(file.attrs["step"]))
