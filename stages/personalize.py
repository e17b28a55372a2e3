"""Phase 3 on the clients: each client's own heads from its own samples and the server's answer."""

from pathlib import Path
from typing import Annotated

import typer

from pfl.clients import read_clients
from pfl.features import open_features
from pfl.fedhip import local_head, personalized_head
from pfl.heads import create_heads
from pfl.index import read_index
from pfl.progress import progress
from pfl.quantize import dequantize
from pfl.rows import by_client
from pfl.server import read_server
from stages._run import finite, run


def personalize(
    index: Annotated[Path, typer.Option(help="The sample index.")],
    clients_file: Annotated[Path, typer.Option(help="Who holds which samples.")],
    features: Annotated[Path, typer.Option(help="The fixed-point features.")],
    server: Annotated[Path, typer.Option(help="What the server sent back.")],
    out: Annotated[Path, typer.Option(help="Output: every client's heads.")],
    alpha: Annotated[
        float,
        typer.Option(
            min=0.0, callback=finite, help="Weight α of a client's own samples, 0 or more."
        ),
    ],
) -> None:
    """Solve for every client's local head L_k and personalized head P_k."""
    samples, held = read_index(index), read_clients(clients_file).train
    _, knowledge = read_server(server)
    shape = (held.clients, *knowledge.head.shape)
    with open_features(features) as source, create_heads(out, shape, knowledge.beta) as heads:
        clients = by_client(source, samples, held)
        for own in progress(clients, held.clients, "clients", "personalize"):
            own_features = dequantize(own.rows, source.step)
            heads.add(
                own.client,
                local_head(own_features, own.labels, shape[2], knowledge.beta),
                personalized_head(knowledge, own_features, own.labels, alpha),
                alpha,
            )


if __name__ == "__main__":
    run(personalize)
