"""Masks: pseudo-random vectors modulo 2⁶⁴, from the keystream of AES-256 in counter mode.

A mask is a function of its seed alone, so two clients with one seed make one mask, add and subtract
it, and the sum of both uploads is free of it. A seed is used for one mask, hence a counter from 0.
"""

from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from jaxtyping import UInt64

CHUNK = 2**14  # numbers at a time: the keystream stays in the processor's cache
SLACK = 15  # bytes that the cipher may want beyond its output: a block less one


def add_mask(vector: UInt64[np.ndarray, " n"], seed: bytes) -> None:
    """Add the mask of a 32-byte seed to ``vector``, in place, modulo 2⁶⁴."""
    for part, stream in _keystream(seed, len(vector)):
        vector[part] += stream


def subtract_mask(vector: UInt64[np.ndarray, " n"], seed: bytes) -> None:
    """Take the mask of a 32-byte seed out of ``vector``, in place, modulo 2⁶⁴."""
    for part, stream in _keystream(seed, len(vector)):
        vector[part] -= stream


def add_pair_mask(vector: UInt64[np.ndarray, " n"], seed: bytes, me: int, other: int) -> None:
    """Add, in place, what ``me`` adds for the mask with ``other``, who adds the opposite."""
    (add_mask if other > me else subtract_mask)(vector, seed)


def _keystream(seed: bytes, length: int) -> Iterator[tuple[slice, UInt64[np.ndarray, " chunk"]]]:
    """Consecutive parts of a mask, each in a buffer that the next one overwrites."""
    encryptor = Cipher(AES256(seed), CTR(bytes(16))).encryptor()
    zeros, stream = memoryview(bytes(8 * CHUNK)), bytearray(8 * CHUNK + SLACK)
    numbers = np.frombuffer(stream, "<u8", CHUNK)
    for start in range(0, length, CHUNK):
        size = min(CHUNK, length - start)
        encryptor.update_into(zeros[: 8 * size], stream)
        yield slice(start, start + size), numbers[:size]
