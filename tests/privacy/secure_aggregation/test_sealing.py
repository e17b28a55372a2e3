import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.errors import InputError
from pfl.privacy.secure_aggregation.sealing import NONCE_BYTES, seal, unseal

KEY = b"k" * 32


@given(st.binary(max_size=80))
def test_the_receiver_reads_what_was_sent(content):
    letter = seal(KEY, 3, 5, content, os.urandom)
    assert unseal(KEY, 3, 5, letter) == content
    assert len(letter) == NONCE_BYTES + len(content) + 16


@given(st.integers(0, 12 + 8 + 16 - 1), st.integers(1, 255))
def test_a_changed_letter_is_refused(place, flip):
    letter = bytearray(seal(KEY, 3, 5, b"8 bytes.", os.urandom))
    letter[place] ^= flip
    with pytest.raises(InputError, match="client 3 sent to client 5 was changed"):
        unseal(KEY, 3, 5, bytes(letter))


@pytest.mark.parametrize(
    ("key", "sender", "receiver"), [(KEY, 5, 3), (KEY, 3, 6), (b"l" * 32, 3, 5)]
)
def test_a_letter_opens_under_its_key_and_address_only(key, sender, receiver):
    letter = seal(KEY, 3, 5, b"content", os.urandom)
    with pytest.raises(InputError, match="changed"):
        unseal(key, sender, receiver, letter)


def test_a_letter_cut_short_is_refused():
    with pytest.raises(InputError, match="changed"):
        unseal(KEY, 3, 5, b"short")
