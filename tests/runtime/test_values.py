"""Values that people set: ranges hold what they say, and errors name the key."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.errors import InputError
from pfl.runtime.values import Device, Range, checked, number_or_auto, whole_or_auto

bounds = st.floats(-10, 10)


@given(bounds, bounds, st.booleans(), st.booleans(), st.floats())
def test_a_range_holds_what_it_says(low, high, with_low, with_high, value):
    above = value >= low if with_low else value > low
    below = value <= high if with_high else value < high
    if low < high:
        assert (value in Range(low, high, with_low, with_high)) == (above and below)


def test_nothing_infinite_lies_in_an_open_end():
    assert math.inf not in Range(0) and math.nan not in Range(0) and 1e300 in Range(0)


def test_a_range_is_told_as_an_inequality():
    assert str(Range(0, 1, with_low=False)) == "0 < x ≤ 1"
    assert str(Range(0, 1, with_high=False)) == "0 ≤ x < 1"
    assert str(Range(1)) == "1 ≤ x"


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (True, int, "it must be a whole number"),
        (1, bool, "it must be true or false"),
        (2.0, int, "it must be a whole number"),
        (None, float, "it must be a number"),
        (7, int, "choose a whole number with 0 ≤ x ≤ 5"),
        (math.nan, float, "choose a number with 0 ≤ x ≤ 5"),
        ("gpu", Device, "choose from auto, cpu, cuda"),
        ([], Device, "choose from auto, cpu, cuda"),
    ],
)
def test_what_is_wrong_is_named(value, kind, message):
    with pytest.raises(InputError, match=rf"^a\.b is .*: {message}\.$"):
        checked("a.b", value, kind, Range(0, 5))


def test_whole_numbers_are_floats_and_texts_are_choices():
    assert isinstance(checked("a.b", 3, float), float)
    assert checked("a.b", "cpu", Device) is Device.cpu


@given(st.floats(0, exclude_min=True, allow_infinity=False))
def test_a_number_and_its_text_are_the_same(number):
    assert number_or_auto(number, "a.b") == number_or_auto(repr(number), "a.b") == number


@pytest.mark.parametrize("value", [0, -1, True, None, [], "much", math.inf, "nan", "none"])
def test_no_other_thing_is_a_number_or_auto(value):
    with pytest.raises(InputError, match=r"^a\.b is .*: it must be auto or a finite number above"):
        number_or_auto(value, "a.b")


def test_zero_and_other_words_where_they_are_meant():
    assert number_or_auto(0, "a.b", zero=True) == 0
    assert number_or_auto("none", "a.b", word="none") is None
    assert number_or_auto("auto", "a.b") is None


def test_whole_or_auto():
    assert (whole_or_auto("auto", "a.b"), whole_or_auto("12", "a.b")) == (None, 12)
    with pytest.raises(InputError, match=r"a\.b is 1\.5: it must be auto or a whole number"):
        whole_or_auto(1.5, "a.b")
    with pytest.raises(InputError, match=r"a\.b is 'big': it must be auto or a whole number"):
        whole_or_auto("big", "a.b")
