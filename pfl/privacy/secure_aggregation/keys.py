"""Keys that two clients agree on through a server that relays: X25519, then HKDF-SHA-256.

Each client has two key pairs for one sum. The *sealing* pair encrypts shares on their way to peers.
The *mask* pair gives the seeds of pairwise masks, and its private key is what peers recover when
the client is lost; with one pair for both, that recovery would open the client's letters too.
"""

from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from pfl.errors import InputError

KEY_BYTES = 32
MASK = b"pfl secure sum: mask"
SEALING = b"pfl secure sum: sealing"

Entropy = Callable[[int], bytes]
"""A source of that many unpredictable bytes: ``os.urandom``, or a seeded one in tests."""


def public_key(private: bytes) -> bytes:
    """The public half of a private key; both are 32 bytes."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agree(private: bytes, publics: dict[int, bytes], purpose: bytes) -> dict[int, bytes]:
    """The 32-byte secret shared with the owner of each public key; they derive the same.

    The purpose is ``MASK`` or ``SEALING``: different purposes give unrelated secrets.

    Raises:
        InputError: a peer's key is not a point of the curve that can be used.
    """
    own = X25519PrivateKey.from_private_bytes(private)
    secrets = {}
    for peer, public in publics.items():
        try:
            common = own.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError as error:
            raise InputError(
                f"Client {peer}'s public key cannot be used: let it advertise a new one."
            ) from error
        secrets[peer] = HKDF(SHA256(), KEY_BYTES, None, purpose).derive(common)
    return secrets
