"""Phase 2 on the server: add what the clients sent and solve for the global head, once."""

import logging
import math
import os
from pathlib import Path
from typing import Annotated

import typer

from pfl.fedhip import aggregate as solve
from pfl.moments import Moments, total
from pfl.secure.simulation import secure_sum
from pfl.secure.vectors import from_vector, to_vector
from pfl.selection.sums import choose_beta, global_path
from pfl.server import write_server
from pfl.uploads import Uploads, open_uploads
from stages._run import number_or_auto, run

log = logging.getLogger("pfl")


def aggregate(
    uploads: Annotated[Path, typer.Option(help="What every client sent.")],
    out: Annotated[Path, typer.Option(help="Output: the sums and the global head.")],
    beta: Annotated[
        str, typer.Option(help="Ridge β of the global head, above 0, or auto: by GCV.")
    ],
    secure: Annotated[
        bool, typer.Option(help="Add masked uploads, so that the server sees the sums alone.")
    ],
    neighbors: Annotated[
        str, typer.Option(help="Clients that each one masks with, 2 or more, or auto.")
    ],
) -> None:
    """Add the integer moments of all clients and solve for the global head G."""
    ridge = number_or_auto(beta, "--beta")
    degree = number_or_auto(neighbors, "--neighbors")
    with open_uploads(uploads) as sent:
        if secure:
            summed = _secure_total(sent, None if degree is None else math.ceil(degree))
        else:
            summed = total((sent.of(client) for client in range(sent.clients)), sent.zero)
    if ridge is None:
        ridge = choose_beta(global_path(summed))
        log.info("beta = %.4g has the least generalized cross-validation error.", ridge)
    write_server(out, summed, solve(summed, ridge))


def _secure_total(sent: Uploads, neighbors: int | None) -> Moments:
    """The same sum through masked uploads; see ``docs/secure-sum.md``."""
    if sent.clients == 2:
        log.warning("With two clients each learns from the sum what the other sent.")
    clients = range(sent.clients)
    vector = secure_sum(clients, lambda k: to_vector(sent.of(k)), os.urandom, neighbors)
    return from_vector(vector, sent.zero)


if __name__ == "__main__":
    run(aggregate)
