import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.errors import InputError
from pfl.privacy.secure_aggregation.keys import MASK, SEALING, agree, public_key

privates = st.binary(min_size=32, max_size=32)


@given(privates, privates)
def test_both_sides_agree(a, b):
    ours = agree(a, {7: public_key(b)}, MASK)
    assert ours == {7: agree(b, {3: public_key(a)}, MASK)[3]}


def test_purposes_and_peers_give_different_secrets():
    draw = np.random.default_rng(0).bytes
    a, publics = draw(32), {u: public_key(draw(32)) for u in range(3)}
    secrets = [*agree(a, publics, MASK).values(), *agree(a, publics, SEALING).values()]
    assert len(set(secrets)) == 6


@pytest.mark.parametrize("key", [bytes(32), b"short"])
def test_a_key_that_gives_no_secret_is_refused(key):
    """Of the point 0 everybody would know the common secret."""
    with pytest.raises(InputError, match="Client 4's public key"):
        agree(b"x" * 32, {4: key}, MASK)
