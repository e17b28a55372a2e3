"""Shares that are rounded are those of exact arithmetic."""

import math
from fractions import Fraction

import hypothesis.strategies as st
from hypothesis import example, given

from pfl.runtime.rounding import portion


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.data())
def test_a_portion_rounds_as_the_fraction_does(count, whole, data):
    part = data.draw(st.integers(0, whole))
    exact = Fraction(count * part, whole)
    assert math.floor(portion(count, part / whole)) == math.floor(exact)
    assert math.ceil(portion(count, part / whole)) == math.ceil(exact)


@given(st.integers(0, 10**6), st.integers(0, 10**4))
@example(100, 2900)
@example(30, 1000)
def test_a_portion_of_decimals_as_they_are_written(count, hundredths):
    share = float(f"{hundredths / 10**4:.4f}")
    assert math.floor(portion(count, share)) == count * hundredths // 10**4


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 100))
def test_a_product_of_shares_is_a_share(number, rounds, count):
    """As the channels of CD2-pFed: p · t/T."""
    number = min(number, rounds)
    share = 0.3 * (number / rounds)
    assert math.ceil(portion(count, share)) == math.ceil(Fraction(3 * number * count, 10 * rounds))
