"""Phase 2 on the server: add what the clients sent and solve for the global head, once."""

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from pfl.artifacts.hashing import recorded_sha256
from pfl.artifacts.hdf5 import Attribute
from pfl.artifacts.provenance import Origins
from pfl.errors import InputError
from pfl.fedhip.members import Members, without, write_members, write_upload
from pfl.fedhip.membership import solve_sums
from pfl.fedhip.moments import Moments, total
from pfl.fedhip.server import write_server
from pfl.fedhip.uploads import Uploads, open_uploads, packed_bytes
from pfl.privacy.differential.gaussian import Bytes, secret_bytes, seeded_bytes
from pfl.privacy.differential.release import Privacy, release
from pfl.runtime.values import number_or_auto, whole_or_auto
from stages._artifacts import UploadsFile
from stages._run import LARGEST_SEED, finite, obeying, run

log = logging.getLogger("pfl")


def _ridge(text: str) -> float | None:
    return number_or_auto(text, "aggregate.beta")


def _degree(text: str) -> int | None:
    return whole_or_auto(text, "aggregate.neighbors")


def _promised(text: str) -> float | None:
    return number_or_auto(text, "aggregate.privacy.epsilon", word="none")


def _noise(seed: str) -> Bytes:
    """Where the noise comes from."""
    if seed == "secret":
        return secret_bytes
    if seed.isdecimal() and int(seed) <= LARGEST_SEED:
        return seeded_bytes(int(seed))
    raise InputError(
        f"aggregate.privacy.seed is '{seed}': it must be secret or a whole number from 0 on."
    )


def aggregate(
    uploads: UploadsFile,
    out: Annotated[Path, typer.Option(help="Output: the sums and the global head.")],
    members: Annotated[Path, typer.Option(help="Output: which clients are in the sums.")],
    upload: Annotated[Path, typer.Option(help="Output: the bytes that these clients sent.")],
    beta: Annotated[
        str,
        typer.Option(
            callback=obeying(_ridge), help="Ridge β of the global head, above 0, or auto: by GCV."
        ),
    ],
    leave_out: Annotated[
        # An empty list in params.yaml is no flag at all.
        list[int],
        typer.Option(
            default_factory=list,
            show_default="nobody",
            help="Number of a client that takes no part; may be given again.",
        ),
    ],
    secure: Annotated[
        bool, typer.Option(help="Add masked uploads, so that the server sees the sums alone.")
    ],
    neighbors: Annotated[
        str,
        typer.Option(
            callback=obeying(_degree), help="Clients that each one masks with, 2 or more, or auto."
        ),
    ],
    privacy_epsilon: Annotated[
        str,
        typer.Option(
            "--privacy.epsilon",
            callback=obeying(_promised),
            help="ε of differentially private sums, or none.",
        ),
    ],
    privacy_delta: Annotated[
        float, typer.Option("--privacy.delta", callback=finite, help="δ of private sums.")
    ],
    privacy_seed: Annotated[
        str,
        typer.Option(
            "--privacy.seed",
            callback=obeying(_noise),
            help="Of the noise: secret, or a number to simulate.",
        ),
    ],
) -> None:
    """Add the integer moments of all clients but those left out and solve for the global head G."""
    ridge, degree, promised = _ridge(beta), _degree(neighbors), _promised(privacy_epsilon)
    noise, facts = _noise(privacy_seed), dict[str, Attribute]()
    with open_uploads(uploads) as sent:
        privacy = None if promised is None else Privacy(promised, privacy_delta, sent.norm)
        member = without(leave_out, sent.clients)
        clients = np.flatnonzero(member).tolist()
        if secure:
            summed, size = _secure_total(sent, clients, degree)
        else:
            summed, size = _plain_total(sent, clients)
    if privacy is not None:
        released = release(summed, privacy, noise)
        summed, ridge = released.sums, ridge or released.beta
        facts = {**privacy.facts, "privacy-seed": privacy_seed}
        log.info("Private sums: the noise calls for beta = %.4g.", released.beta)
        if privacy_seed != "secret":
            log.warning("The noise can be made again from its seed: this protects nobody.")
    knowledge = solve_sums(summed, ridge)
    if ridge is None:
        log.info("beta = %.4g has the least generalized cross-validation error.", knowledge.beta)
    write_server(out, summed, knowledge, ridge is None, facts)
    made = Origins(recorded_sha256(out, "server"), sent.clients_sha256, sent.features_sha256)
    write_members(members, Members(member, made, sent.view))
    write_upload(upload, len(clients), secure, size)


def _plain_total(sent: Uploads, clients: Sequence[int]) -> tuple[Moments, int]:
    """The sum of what these clients sent, and how many bytes that were."""
    size = 0

    def uploads() -> Iterator[Moments]:
        nonlocal size
        for client in clients:
            own = sent.of(client)
            size += packed_bytes(own)
            yield own

    summed = total(uploads(), sent.zero)
    return summed, size


def _secure_total(
    sent: Uploads, clients: Sequence[int], neighbors: int | None
) -> tuple[Moments, int]:
    """The same through masked uploads; see ``docs/secure-sum.md``."""
    # Imported here because it takes long, and few runs mask uploads.
    from pfl.privacy.secure_aggregation.simulation import secure_sum
    from pfl.privacy.secure_aggregation.vectors import from_vector, to_vector

    if len(clients) == 2:
        log.warning("With two clients each learns from the sum what the other sent.")
    vector, size = secure_sum(clients, lambda k: to_vector(sent.of(k)), os.urandom, neighbors)
    return from_vector(vector, sent.zero), size


if __name__ == "__main__":
    run(aggregate, "out")
