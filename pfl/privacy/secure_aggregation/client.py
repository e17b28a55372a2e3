"""One client of a secure sum: what it keeps, and what it answers to each message of the server.

    advertise   two public keys                        → Advert
    share       its secrets, in parts for its peers    → Letters
    mask        its vector under all its masks         → Masked
    reveal      peers' parts: one of the two secrets   → Shares

after K. Bonawitz et al., Practical secure aggregation for privacy-preserving machine learning
(CCS 2017), figure 4 without its signatures. Client u sends, modulo 2⁶⁴,

    y_u = x_u + PRG(b_u) + Σ_{v > u} PRG(s_uv) − Σ_{v < u} PRG(s_uv),

v over the neighbors that have shared. Pairwise masks cancel in a sum over all. If u is lost, its
peers give back its mask key, hence every s_uv; if it is not, b_u. Whoever had both would have x_u,
so a client gives one of them, once.

A state is used once: each function returns the next one, and the last must not be taken again.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import UInt64

from pfl.errors import InputError
from pfl.privacy.secure_aggregation.keys import KEY_BYTES, MASK, SEALING, Entropy, agree, public_key
from pfl.privacy.secure_aggregation.masks import add_mask, add_pair_mask
from pfl.privacy.secure_aggregation.messages import (
    Advert,
    Introduction,
    Letters,
    Masked,
    Question,
    Shares,
)
from pfl.privacy.secure_aggregation.sealing import seal, unseal
from pfl.privacy.secure_aggregation.shamir import SECRET_BYTES, SHARE_BYTES, split


@dataclass(frozen=True)
class Secrets:
    """What a client draws for one sum and never sends whole.

    Attributes:
        client: its number, 0 or more.
        sealing_key: private key of letters to peers.
        mask_key: private key of pairwise masks.
        seed: b_u, of its own mask.
    """

    client: int
    sealing_key: bytes = field(repr=False)
    mask_key: bytes = field(repr=False)
    seed: bytes = field(repr=False)


@dataclass(frozen=True)
class Sharing:
    """After ``share``: the neighbors' adverts, and the keys of letters to and from them."""

    secrets: Secrets
    adverts: dict[int, Advert]
    threshold: int
    sealing_keys: dict[int, bytes] = field(repr=False)


@dataclass(frozen=True)
class Waiting:
    """After ``mask``: the letters of the neighbors that have shared, and the question answered."""

    sharing: Sharing
    letters: dict[int, bytes] = field(repr=False)
    answered: Question | None = None


def draw_secrets(client: int, entropy: Entropy) -> Secrets:
    """New secrets for one sum."""
    return Secrets(client, entropy(KEY_BYTES), entropy(KEY_BYTES), entropy(SECRET_BYTES))


def advertise(secrets: Secrets) -> Advert:
    """The public keys."""
    return Advert(secrets.client, public_key(secrets.sealing_key), public_key(secrets.mask_key))


def share(
    secrets: Secrets, introduction: Introduction, entropy: Entropy
) -> tuple[Sharing, Letters]:
    """Shares of the mask key and of the seed, sealed for each neighbor.

    Raises:
        InputError: so few neighbors could give back a secret that a server which tells some of
            them that this client is lost and others that it is not would get both.
    """
    me, threshold = secrets.client, introduction.threshold
    adverts = {advert.client: advert for advert in introduction.neighbors}
    _check_introduction(me, introduction, len(adverts))
    keys = agree(secrets.sealing_key, {v: a.sealing_key for v, a in adverts.items()}, SEALING)
    points = [point(v) for v in adverts]
    of_key = split(secrets.mask_key, threshold, points, entropy)
    of_seed = split(secrets.seed, threshold, points, entropy)
    sealed = {
        v: seal(keys[v], me, v, of_key[point(v)] + of_seed[point(v)], entropy) for v in adverts
    }
    return Sharing(secrets, adverts, threshold, keys), Letters(me, sealed)


def point(client: int) -> int:
    """Where a client's share lies on the polynomial: not at 0, where the secret is."""
    return client + 1


def _check_introduction(me: int, introduction: Introduction, neighbors: int) -> None:
    if introduction.client != me or neighbors < len(introduction.neighbors):
        raise InputError(
            f"Client {me} was introduced to neighbors twice, or in another's place: it takes no "
            "part in this sum."
        )
    if not neighbors < 2 * introduction.threshold <= 2 * neighbors:
        raise InputError(
            f"{introduction.threshold} of {neighbors} neighbors of client {me} were to recover "
            "its secrets; it takes part only if more than half of them are needed."
        )


def mask(
    sharing: Sharing, delivered: Letters, vector: UInt64[np.ndarray, " n"]
) -> tuple[Waiting, Masked]:
    """The vector under its own mask and those with each neighbor that has shared.

    Raises:
        InputError: fewer than t neighbors have shared.
    """
    me, adverts = sharing.secrets.client, sharing.adverts
    if not delivered.sealed.keys() <= adverts.keys() or delivered.client != me:
        raise InputError(f"Client {me} got letters that are not for it or of strangers.")
    _check_company(me, len(delivered.sealed), sharing.threshold)
    seeds = agree(
        sharing.secrets.mask_key, {v: adverts[v].mask_key for v in delivered.sealed}, MASK
    )
    masked = vector.copy()
    add_mask(masked, sharing.secrets.seed)
    for other, seed in seeds.items():
        add_pair_mask(masked, seed, me, other)
    sent = Masked(me, masked.astype("<u8", copy=False).tobytes())
    return Waiting(sharing, delivered.sealed), sent


def reveal(waiting: Waiting, question: Question) -> tuple[Waiting, Shares]:
    """The seed's shares of present neighbors and the mask key's of lost ones.

    The same question may come again and gets the same answer.

    Raises:
        InputError: the question asks for both secrets of a neighbor, now or together with one
            answered before; names a stranger; or leaves fewer than t neighbors in the sum.
    """
    me = waiting.sharing.secrets.client
    _check_question(waiting, question)
    opened = {
        v: unseal(waiting.sharing.sealing_keys[v], v, me, waiting.letters[v])
        for v in (*question.present, *question.lost)
    }
    answer = Shares(
        me,
        {v: opened[v][SHARE_BYTES:] for v in question.present},
        {v: opened[v][:SHARE_BYTES] for v in question.lost},
    )
    return replace(waiting, answered=question), answer


def _check_question(waiting: Waiting, question: Question) -> None:
    me, present, lost = waiting.sharing.secrets.client, set(question.present), set(question.lost)
    if waiting.answered is not None and question != waiting.answered:
        raise InputError(
            f"Client {me} was asked a second, different question, which could disclose a single "
            "client's upload: it answers one for each sum."
        )
    both = present & lost
    if both:
        raise InputError(
            f"Client {me} was asked for both secrets of client {min(both)}, which would disclose "
            "its upload: it gives one of them."
        )
    if question.client != me or not present | lost <= waiting.letters.keys():
        raise InputError(f"Client {me} was asked about strangers, or in another's place.")
    _check_company(me, len(present), waiting.sharing.threshold)


def _check_company(me: int, neighbors: int, threshold: int) -> None:
    """Refuse to be in a sum of so few."""
    if neighbors < threshold:
        raise InputError(
            f"{neighbors} neighbors of client {me} remain, {threshold} are needed to hide it: it "
            "leaves the sum. Start again with the clients that answer."
        )
