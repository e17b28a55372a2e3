"""Phase 2 on the server: add what the clients sent and solve for the global head, once."""

from pathlib import Path
from typing import Annotated

import typer

from pfl.fedhip import aggregate as solve
from pfl.moments import total
from pfl.server import write_server
from pfl.uploads import open_uploads
from stages._run import positive, run


def aggregate(
    uploads: Annotated[Path, typer.Option(help="What every client sent.")],
    out: Annotated[Path, typer.Option(help="Output: the sums and the global head.")],
    beta: Annotated[float, typer.Option(callback=positive, help="Ridge β of every head, above 0.")],
) -> None:
    """Add the integer moments of all clients and solve for the global head G."""
    with open_uploads(uploads) as sent:
        clients = sent.clients
        summed = total((sent.of(client) for client in range(clients)), sent.zero)
    write_server(out, summed, solve(summed, beta), clients)


if __name__ == "__main__":
    run(aggregate)
