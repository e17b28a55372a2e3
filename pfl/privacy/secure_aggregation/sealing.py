"""Letters between two clients that the server carries and cannot read: ChaCha20-Poly1305."""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from pfl.errors import InputError
from pfl.privacy.secure_aggregation.keys import Entropy

NONCE_BYTES = 12


def seal(key: bytes, sender: int, receiver: int, content: bytes, entropy: Entropy) -> bytes:
    """Encrypt under a key that both have agreed on; nobody can change it or its address."""
    nonce = entropy(NONCE_BYTES)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, content, _address(sender, receiver))


def unseal(key: bytes, sender: int, receiver: int, letter: bytes) -> bytes:
    """The content of a letter.

    Raises:
        InputError: it was changed, or is not from this sender to this receiver.
    """
    nonce, text = letter[:NONCE_BYTES], letter[NONCE_BYTES:]
    try:
        return ChaCha20Poly1305(key).decrypt(nonce, text, _address(sender, receiver))
    except (InvalidTag, ValueError) as error:
        raise InputError(
            f"What client {sender} sent to client {receiver} was changed on its way: "
            "start the sum again, over a connection that you trust."
        ) from error


def _address(sender: int, receiver: int) -> bytes:
    return sender.to_bytes(8) + receiver.to_bytes(8)
