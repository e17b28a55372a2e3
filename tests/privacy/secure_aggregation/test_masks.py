import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from pfl.privacy.secure_aggregation.masks import CHUNK, add_mask, subtract_mask

seeds = st.binary(min_size=32, max_size=32)


def mask(seed, length):
    vector = np.zeros(length, np.uint64)
    add_mask(vector, seed)
    return vector


@given(seeds, st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_what_is_added_is_taken_out_exactly(seed, numbers):
    vector = np.array(numbers, np.uint64)
    changed = vector.copy()
    add_mask(changed, seed)
    subtract_mask(changed, seed)
    np.testing.assert_array_equal(changed, vector)


@pytest.mark.parametrize("length", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 5])
def test_a_mask_is_the_ciphers_stream_whole(length):
    """In parts as in one piece."""
    cipher = Cipher(algorithms.AES(b"k" * 32), modes.CTR(bytes(16))).encryptor()
    whole = np.frombuffer(cipher.update(bytes(8 * length)), "<u8")
    np.testing.assert_array_equal(mask(b"k" * 32, length), whole)


@given(seeds, seeds)
def test_a_mask_is_its_seeds(a, b):
    assert np.array_equal(mask(a, 4), mask(b, 4)) == (a == b)
