"""The server of a secure sum: it relays, adds, and takes the masks out of the total.

    introduce   Adverts  → an Introduction to each client
    deliver     Letters  → Letters to each client that has shared
    collect     Masked   → a Question to each client that is in the sum
    finish      Shares  → the sum of their vectors, modulo 2⁶⁴

A step goes on with the clients whose messages it is given; who is missing is lost. See
:mod:`pfl.privacy.secure_aggregation.client` for the other side.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import UInt64

from pfl.errors import InputError
from pfl.privacy.secure_aggregation.client import point
from pfl.privacy.secure_aggregation.keys import MASK, agree, public_key
from pfl.privacy.secure_aggregation.masks import add_pair_mask, subtract_mask
from pfl.privacy.secure_aggregation.messages import (
    Advert,
    Introduction,
    Letters,
    Masked,
    Question,
    Shares,
)
from pfl.privacy.secure_aggregation.neighbors import draw, threshold
from pfl.privacy.secure_aggregation.shamir import recover


@dataclass(frozen=True)
class Introduced:
    """Who is whose neighbor: of each client that advertised, and how many shares recover it."""

    adverts: dict[int, Advert]
    neighbors: dict[int, frozenset[int]]
    threshold: int


@dataclass(frozen=True)
class Delivered:
    """The clients that have shared; each masks with its neighbors among them."""

    introduced: Introduced
    shared: frozenset[int]

    def peers(self, client: int) -> frozenset[int]:
        """The clients that ``client`` masks with."""
        return self.introduced.neighbors[client] & self.shared


@dataclass(frozen=True)
class Collected:
    """The clients that are in the sum, and the sum with its masks."""

    delivered: Delivered
    present: frozenset[int]
    masked: UInt64[np.ndarray, " n"] = field(repr=False)


def introduce(
    adverts: Iterable[Advert], neighbors: int | None, rng: np.random.Generator
) -> tuple[Introduced, dict[int, Introduction]]:
    """Draw the neighbors and tell each client its own; see ``neighbors`` beside this file."""
    known = {advert.client: advert for advert in adverts}
    graph = draw(sorted(known), neighbors, rng)
    needed = threshold(len(next(iter(graph.values()))))
    introductions = {
        u: Introduction(u, tuple(known[v] for v in sorted(peers)), needed)
        for u, peers in graph.items()
    }
    return Introduced(known, graph, needed), introductions


def deliver(
    introduced: Introduced, letters: Iterable[Letters]
) -> tuple[Delivered, dict[int, Letters]]:
    """Hand each client that has shared the letters of its neighbors that have too.

    Raises:
        InputError: too few have shared.
    """
    sealed = {message.client: message.sealed for message in letters}
    delivered = Delivered(introduced, frozenset(sealed))
    _check_enough(introduced, delivered.shared, delivered.shared)
    return delivered, {
        u: Letters(u, {v: sealed[v][u] for v in sorted(delivered.peers(u))}) for u in sealed
    }


def collect(
    delivered: Delivered, uploads: Iterable[Masked]
) -> tuple[Collected, dict[int, Question]]:
    """Add the masked vectors, one at a time, and ask each sender about its neighbors.

    Raises:
        InputError: too few have sent one, or one was sent twice or with another length.
    """
    present: set[int] = set()
    total = np.zeros(0, np.uint64)
    for upload in uploads:
        _check_upload(upload, delivered.shared - present, total if present else None)
        vector = np.frombuffer(upload.vector, "<u8")
        if present:
            total += vector
        else:
            total = vector.astype(np.uint64)
        present.add(upload.client)
    collected = Collected(delivered, frozenset(present), total)
    _check_enough(delivered.introduced, present, present)
    return collected, {u: _question(delivered, present, u) for u in present}


def _check_upload(
    upload: Masked, expected: frozenset[int], total: UInt64[np.ndarray, " n"] | None
) -> None:
    if upload.client not in expected:
        raise InputError(
            f"Client {upload.client} sent a masked vector that is not expected of it: each sends "
            "one, after it has shared."
        )
    if total is not None and len(upload.vector) != total.nbytes:
        raise InputError(
            f"Client {upload.client} sent {len(upload.vector) // 8} numbers and the others "
            f"{len(total)}: use one backbone and one list of classes for all clients."
        )


def _question(delivered: Delivered, present: set[int], client: int) -> Question:
    peers = delivered.peers(client)
    return Question(client, tuple(sorted(peers & present)), tuple(sorted(peers - present)))


def finish(collected: Collected, answers: Iterable[Shares]) -> UInt64[np.ndarray, " n"]:
    """Σ x_u over the clients that are in the sum, exactly.

    Raises:
        InputError: too few have answered, or recovered keys are not those that were advertised.
    """
    replies = {answer.client: answer for answer in answers}
    delivered, present = collected.delivered, collected.present
    exposed = {u for u in delivered.shared - present if delivered.peers(u) & present}
    _check_enough(delivered.introduced, present | exposed, replies.keys())
    seeds = {u: answer.seed_shares for u, answer in replies.items()}
    keys = {u: answer.key_shares for u, answer in replies.items()}
    total = collected.masked.copy()
    for u in sorted(present):
        subtract_mask(total, _recovered(delivered, u, seeds))
    for u in sorted(exposed):
        _remove_pairs(total, collected, u, _recovered(delivered, u, keys))
    return total


def _recovered(
    delivered: Delivered, client: int, shares: Mapping[int, Mapping[int, bytes]]
) -> bytes:
    """A client's secret from what its peers answered, by answering peer and client."""
    helpers = delivered.peers(client) & shares.keys()
    parts = {point(v): shares[v][client] for v in helpers}
    return recover(parts, delivered.introduced.threshold)


def _remove_pairs(
    total: UInt64[np.ndarray, " n"], collected: Collected, lost: int, mask_key: bytes
) -> None:
    """Take out of the total what its senders added for masks with a lost client."""
    adverts = collected.delivered.introduced.adverts
    if public_key(mask_key) != adverts[lost].mask_key:
        raise InputError(
            f"The shares of client {lost} do not give the key that it advertised: "
            "start the sum again."
        )
    senders = collected.delivered.peers(lost) & collected.present
    for sender, seed in agree(mask_key, {v: adverts[v].mask_key for v in senders}, MASK).items():
        add_pair_mask(total, seed, lost, sender)  # the opposite of what the sender added


def _check_enough(introduced: Introduced, of: Iterable[int], among: Iterable[int]) -> None:
    """Refuse when one of the clients ``of`` has fewer than t neighbors ``among`` those left."""
    left = frozenset(among)
    for client in sorted(of):
        remain, needed = len(introduced.neighbors[client] & left), introduced.threshold
        if remain < needed:
            raise InputError(
                f"Too few clients remain for a secure sum: {remain} of client {client}'s "
                f"{len(introduced.neighbors[client])} neighbors, and {needed} are needed. "
                "Start again with the clients that answer."
            )
    if not left:
        raise InputError("No client remains for a secure sum: start again.")
