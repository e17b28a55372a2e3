"""What the server sends back to every client, as the artifact ``server.h5``.

``gram``, ``cross`` and ``count`` are the exact integer sums over all clients; ``head`` is the
global head G in float64. With few clients, or few others, sums tell much about each.

The file depends on the sums and on how β came about (``beta-choice``: ``given``, or ``gcv``) alone,
not on whose sums they are or in which order they were added. Private sums have noise, and
attributes whose names begin with ``privacy-`` say what that promises.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import h5py

from pfl.artifacts.hdf5 import Attribute, create, put, read, reading
from pfl.errors import InputError
from pfl.fedhip.closed_form import Knowledge, received
from pfl.fedhip.moments import Moments

GIVEN, GCV = "given", "gcv"
PRIVATE = "privacy-epsilon"  # attribute of private sums


def write_server(
    path: Path,
    total: Moments,
    knowledge: Knowledge,
    automatic: bool = False,
    privacy: Mapping[str, Attribute] = MappingProxyType({}),
) -> None:
    """Store the sums and the global head, whether β was chosen by GCV, and what is promised."""
    facts: dict[str, Attribute] = {"beta": knowledge.beta, "step": total.step, **privacy}
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
    return total, received(total, head, beta)


def read_sums(path: Path) -> tuple[Moments, float | None]:
    """Load the sums and the β that they are to be solved with, None where GCV chooses it.

    Raises:
        InputError: the sums are private, and another sum with the same noise would not be.
    """
    with reading(path, "server") as file:
        if PRIVATE in file.attrs:
            raise InputError(
                f"The sums in {path} are private. With a client's numbers added or taken out they "
                "would have the same noise, and the difference would give the client away: run "
                "`dvc repro` with another aggregate.leave-out, which draws new noise."
            )
        automatic = file.attrs["beta-choice"] == GCV
        return _sums(file), None if automatic else float(file.attrs["beta"])


def are_private(path: Path) -> bool:
    """Whether the sums have noise."""
    with reading(path, "server") as file:
        return PRIVATE in file.attrs


def _sums(file: h5py.File) -> Moments:
    gram, cross, count = (read(file, name) for name in ("gram", "cross", "count"))
    return Moments(gram, cross, count, float(file.attrs["step"]))
