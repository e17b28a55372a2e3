"""Who is in the server's sums, as the artifact ``members.h5``: ``member``, a yes or no per client.

It lies beside ``server.h5``, which says nothing of clients, so that nobody sees from it who left.
Its attributes say which sums, clients and features belong together. How many bytes the members sent
is in ``upload.json``: that depends on how the sum was made, on which the artifacts do not.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from pfl.artifacts.files import write_text
from pfl.artifacts.hdf5 import Attribute, create, put, read, reading
from pfl.artifacts.json import json_text, load_report, number_at, other_form
from pfl.artifacts.provenance import Origins, recorded_view
from pfl.errors import InputError

UPLOAD_BYTES = "upload-bytes"


@dataclass(frozen=True)
class Members:
    """Which of K clients are in the sums.

    Attributes:
        member: whether each client is.
        origins: the sums, and the clients and features they are of.
        view: how the features were mapped before they were summed, as artifacts record it; empty
            where that is not known.
    """

    member: Bool[np.ndarray, " clients"]
    origins: Origins
    view: Mapping[str, Attribute] = field(default_factory=dict)

    def check(self, clients: int, actual: Origins) -> None:
        """Refuse sums, K clients or features that do not go together.

        Raises:
            InputError: they belong to different runs.
        """
        self.origins.check("list of members", actual)
        if len(self.member) != clients:
            raise InputError(
                f"The list of members is of {len(self.member)} clients, but there are {clients}: "
                "they belong to different runs. Run `dvc repro`, which makes them anew."
            )


def without(leave_out: Sequence[int], clients: int) -> Bool[np.ndarray, " clients"]:
    """Who of K clients stays when those of the given numbers leave.

    Raises:
        InputError: there is no such client, one is named twice, or nobody stays.
    """
    for client, times in Counter(leave_out).items():
        if not 0 <= client < clients:
            raise InputError(
                f"aggregate.leave-out names client {client}, but clients have the numbers 0 to "
                f"{clients - 1}: name some of those."
            )
        if times > 1:
            raise InputError(
                f"aggregate.leave-out names client {client} {times} times: name each client once."
            )
    if len(leave_out) == clients:
        raise InputError(
            f"aggregate.leave-out names all {clients} clients, so that nobody is left: keep one."
        )
    member = np.ones(clients, bool)
    member[list(leave_out)] = False
    return member


def write_members(path: Path, members: Members) -> None:
    """Store ``members.h5``."""
    with create(path, "members", {**members.origins.attributes(), **members.view}) as file:
        put(file, "member", members.member)


def read_members(path: Path) -> Members:
    """Load ``members.h5``."""
    with reading(path, "members") as file:
        return Members(read(file, "member"), Origins.of(file), recorded_view(file))


def write_upload(path: Path, clients: int, secure: bool, size: int) -> None:
    """Store ``upload.json``: how many bytes so many clients sent, and whether for a secure sum."""
    write_text(path, json_text({"clients": clients, "secure": secure, UPLOAD_BYTES: size}))


def read_upload(path: Path) -> int:
    """The bytes that all members sent, of ``upload.json``.

    Raises:
        InputError: it is missing or of another form.
    """
    size = number_at(path, load_report(path), (UPLOAD_BYTES,))
    if size is None:
        raise other_form(path, f"its '{UPLOAD_BYTES}' is null")
    return int(size)
