"""Phase 2 on the server: add what the clients sent and solve for the global head, once."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from pfl.fedhip import aggregate as solve
from pfl.moments import total
from pfl.selection.sums import choose_beta, global_path
from pfl.server import write_server
from pfl.uploads import open_uploads
from stages._run import number_or_auto, run

log = logging.getLogger("pfl")


def aggregate(
    uploads: Annotated[Path, typer.Option(help="What every client sent.")],
    out: Annotated[Path, typer.Option(help="Output: the sums and the global head.")],
    beta: Annotated[
        str, typer.Option(help="Ridge β of the global head, above 0, or auto: by GCV.")
    ],
) -> None:
    """Add the integer moments of all clients and solve for the global head G."""
    ridge = number_or_auto(beta, "--beta")
    with open_uploads(uploads) as sent:
        summed = total((sent.of(client) for client in range(sent.clients)), sent.zero)
    if ridge is None:
        ridge = choose_beta(global_path(summed))
        log.info("beta = %.4g has the least generalized cross-validation error.", ridge)
    write_server(out, summed, solve(summed, ridge))


if __name__ == "__main__":
    run(aggregate)
