"""Names are compared as they look, however their accents are stored."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from pfl.runtime.spelling import existing, find_name, plain, united

ONE, TWO = "café", unicodedata.normalize("NFD", "café")
names = st.lists(st.text("ae\u0301\u00e9\u0308ÅÅ", max_size=4))


def test_the_two_ways_differ_and_look_alike():
    assert ONE != TWO
    assert plain(ONE) == plain(TWO) == ONE


def test_a_name_is_found_by_bytes_and_else_by_looks_where_only_one_looks_so():
    assert find_name(TWO, ["a", TWO, ONE]) == TWO
    assert find_name(TWO, ["a", ONE]) == ONE
    assert find_name("CAFÉ", [ONE]) is None
    both = "e\u0301e\u0301", "\u00e9e\u0301"
    assert find_name("\u00e9\u00e9", both) is None
    assert find_name(both[0], both) == both[0]


@given(names)
def test_united_names_are_equal_where_they_look_alike_and_nowhere_else(listed):
    one = united(listed)
    assert [plain(name) for name in one] == [plain(name) for name in listed]
    for name, other in zip(one, listed, strict=True):
        for second, another in zip(one, listed, strict=True):
            assert (name == second) == (plain(other) == plain(another))


@given(names)
def test_names_that_are_stored_in_one_way_stay_as_they_are(listed):
    once = list({plain(name): name for name in listed}.values())
    assert united(once) == once


def test_a_file_is_found_whichever_way_its_name_is_typed(tmp_path):
    (tmp_path / TWO).touch()
    assert existing(tmp_path / ONE) == tmp_path / TWO
    (tmp_path / ONE).touch()
    assert existing(tmp_path / ONE) == tmp_path / ONE
    assert existing(tmp_path / "gone" / ONE) == tmp_path / "gone" / ONE
    assert existing(tmp_path / "CAFÉ") == tmp_path / "CAFÉ"
