"""A secure sum at the server: it relays, adds masked vectors, and gets to see the total alone.

The steps are those of :mod:`pfl.privacy.secure_aggregation.server`. Who does not answer one is
lost from there on.
"""

import os
from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from flwr.app import RecordDict

from pfl.errors import InputError
from pfl.fedhip.moments import Moments
from pfl.flower.client.fedhip import SENT
from pfl.flower.client.secure import message_of, message_record
from pfl.flower.messages.kinds import ADVERTISE, MASK, REVEAL, SHARE
from pfl.flower.messages.moments import ADVICE, arrays_of, check_range
from pfl.flower.server.exchange import Exchange
from pfl.privacy.secure_aggregation import server
from pfl.privacy.secure_aggregation.messages import Advert, Letters, Masked, Shares, Upload
from pfl.privacy.secure_aggregation.vectors import from_vector, to_vector

Sent = TypeVar("Sent", Advert, Letters, Shares)


def secure_total(
    net: Exchange, nodes: Mapping[int, int], zero: Moments, neighbors: int | None
) -> tuple[Moments, list[int], int]:
    """The sum of the moments of the clients that stay until theirs arrived, and who they are.

    ``nodes`` are by client; each client masks with so many ``neighbors``, or with enough. The last
    is how many bytes all clients sent, as in the pipeline's secure sum.

    Raises:
        InputError: too few clients remain, or one failed and the run is to stop then.
    """
    rng = np.random.default_rng(int.from_bytes(os.urandom(32)))
    requests, upload = dict.fromkeys(nodes.values(), RecordDict()), Upload()
    adverts = upload.count(_ask(net, requests, ADVERTISE, Advert))
    introduced, introductions = server.introduce(adverts, neighbors, rng)
    shared = upload.count(_ask(net, _to(nodes, introductions), SHARE, Letters))
    delivered, letters = server.deliver(introduced, shared)
    length = len(to_vector(zero))

    def masked(node: int, content: RecordDict) -> Masked:
        return Masked(net.names[node], _vector(content, length))

    vectors = (vector for _, vector in net.ask(_to(nodes, letters), MASK, masked))
    collected, questions = server.collect(delivered, upload.count(vectors))
    answers = upload.count(_ask(net, _to(nodes, questions), REVEAL, Shares))
    total = from_vector(server.finish(collected, answers), zero)
    check_range(total)
    return total, sorted(collected.present), upload.bytes


def _to(nodes: Mapping[int, int], messages: Mapping[int, object]) -> dict[int, RecordDict]:
    """Each client's message to its node."""
    return {nodes[client]: message_record(message) for client, message in messages.items()}


def _ask(
    net: Exchange, requests: Mapping[int, RecordDict], kind: str, kind_of_answer: type[Sent]
) -> list[Sent]:
    """Each client's answer, which must be in its own name."""

    def parse(node: int, content: RecordDict) -> Sent:
        message = message_of(kind_of_answer, content)
        if message.client != net.names[node]:
            raise InputError(f"it speaks for client {message.client}. {ADVICE}")
        return message

    return [message for _, message in net.ask(requests, kind, parse)]


def _vector(content: RecordDict, length: int) -> bytes:
    """A masked vector's bytes."""
    sent = arrays_of(content.array_records[SENT])[SENT]
    if sent.shape != (length,) or sent.dtype != np.uint64:
        raise InputError(
            f"its masked vector is {sent.dtype} {sent.shape}, where uint64 {(length,)} is needed. "
            f"{ADVICE}."
        )
    return sent.astype("<u8", copy=False).tobytes()
