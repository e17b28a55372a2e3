"""A secure sum with all clients and the server in one process, each message as it would be sent."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt64

from pfl.privacy.secure_aggregation import client, server
from pfl.privacy.secure_aggregation.keys import Entropy
from pfl.privacy.secure_aggregation.messages import Masked, Upload

NOBODY: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Lost:
    """Clients that are lost before a step, and stay so."""

    before_sharing: frozenset[int] = NOBODY
    before_masking: frozenset[int] = NOBODY
    before_answering: frozenset[int] = NOBODY


EVERYBODY_STAYS = Lost()


def secure_sum(
    clients: Iterable[int],
    vector_of: Callable[[int], UInt64[np.ndarray, " n"]],
    entropy: Entropy,
    neighbors: int | None = None,
    lost: Lost = EVERYBODY_STAYS,
) -> tuple[UInt64[np.ndarray, " n"], int]:
    """Σ of the vectors of the clients that stay until they have sent theirs, modulo 2⁶⁴.

    Vectors are asked for one at a time, so that K of them need not fit into memory. Beside it the
    bytes that all clients sent, see :class:`pfl.privacy.secure_aggregation.messages.Upload`.
    Neither depends on ``entropy``, the source of all keys, seeds and shares, and of who is whose
    neighbor; for their number see :func:`pfl.privacy.secure_aggregation.neighbors.draw`.

    Raises:
        InputError: too few clients remain.
    """
    secrets = {u: client.draw_secrets(u, entropy) for u in clients}
    upload = Upload()
    rng = np.random.default_rng(int.from_bytes(entropy(32)))
    introduced, introductions = server.introduce(
        upload.count(map(client.advertise, secrets.values())), neighbors, rng
    )
    here = [u for u in secrets if u not in lost.before_sharing]
    sharing = {u: client.share(secrets[u], introductions[u], entropy) for u in here}
    shared = upload.count(sent for _, sent in sharing.values())
    delivered, letters = server.deliver(introduced, shared)
    here = [u for u in here if u not in lost.before_masking]
    waiting: dict[int, client.Waiting] = {}

    def masked(u: int) -> Masked:
        waiting[u], sent = client.mask(sharing[u][0], letters[u], vector_of(u))
        return sent

    collected, questions = server.collect(delivered, upload.count(map(masked, here)))
    here = [u for u in here if u not in lost.before_answering]
    answers = (client.reveal(waiting[u], questions[u])[1] for u in here)
    return server.finish(collected, upload.count(answers)), upload.bytes
