"""``pfl forget``, ``join`` and ``upload``: clients leave the server's sums, and join them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from pfl.fedhip import membership
from pfl.fedhip.moments import Moments
from pfl.fedhip.server import read_sums, write_server
from pfl.fedhip.uploads import copy_upload, read_uploads

Files = Annotated[list[Path], typer.Argument(help="What clients sent: uploads.h5, or parts of it.")]
Numbers = Annotated[
    list[int],
    typer.Option(
        default_factory=list,
        show_default="the only one",
        help="Number of a client in the file; may be given again.",
    ),
]
Server = Annotated[Path, typer.Option(help="The server's answer now.")]
Out = Annotated[Path, typer.Option(help="Output: the server's answer then.")]
SERVER, UPLOADS = Path("data/server.h5"), Path("data/uploads.h5")


def forget(files: Files, out: Out, client: Numbers, server: Server = SERVER) -> None:
    """Take clients out of the server's sums, exactly, and solve for the global head again."""
    _change(membership.forget, files, client, server, out)


def join(files: Files, out: Out, client: Numbers, server: Server = SERVER) -> None:
    """Add clients to the server's sums, exactly, and solve for the global head again."""
    _change(membership.join, files, client, server, out)


def upload(
    client: Annotated[int, typer.Option(help="The client's number.")],
    out: Annotated[Path, typer.Option(help="Output: what this client sent.")],
    uploads: Annotated[Path, typer.Option(help="What every client sent.")] = UPLOADS,
) -> None:
    """Copy what one client sent into a file of its own, which `forget` and `join` read faster."""
    copy_upload(uploads, client, out)


def _change(
    change: Callable[[Moments, Sequence[Moments]], Moments],
    files: Sequence[Path],
    clients: Sequence[int],
    server: Path,
    out: Path,
) -> None:
    sent = read_uploads(files, clients)
    summed, beta = read_sums(server)
    changed = change(summed, sent)
    write_server(out, changed, membership.solve_sums(changed, beta), automatic=beta is None)
