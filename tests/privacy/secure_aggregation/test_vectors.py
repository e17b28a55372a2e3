import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pfl.fedhip.moments import Moments, total
from pfl.privacy.secure_aggregation.vectors import from_vector, to_vector
from tests.fedhip.test_moments import of
from tests.strategies import federations


@given(federations())
def test_the_sum_of_vectors_is_the_vector_of_the_sum(federation):
    parts = [of(federation, client) for client in range(federation.clients)]
    zero = parts[0] - parts[0]
    summed = sum(map(to_vector, parts), to_vector(zero))
    assert from_vector(summed, zero) == total(parts, zero)
    assert len(summed) == zero.gram.size + zero.cross.size + zero.count.size


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=6, max_size=6))
def test_every_int64_comes_back(numbers):
    numbers = np.array(numbers)
    sent = Moments(numbers[:3], numbers[3:5].reshape(1, 2), numbers[5:], 0.5)
    assert from_vector(to_vector(sent), Moments.zero(2, 1, 0.5)) == sent


def test_a_vector_is_a_copy():
    """The masks are added in place."""
    sent = Moments.zero(2, 1, 0.5)
    to_vector(sent)[:] = 1
    assert sent == Moments.zero(2, 1, 0.5)
