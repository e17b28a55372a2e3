import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.artifacts.provenance import UNKNOWN, Origins
from pfl.errors import InputError
from pfl.fedhip.members import Members, read_members, without, write_members


@given(st.integers(1, 9), st.data())
def test_all_but_those_who_leave_are_members_in_whatever_order_they_are_named(clients, data):
    leaving = data.draw(st.lists(st.integers(0, clients - 1), unique=True, max_size=clients - 1))
    member = without(leaving, clients)
    assert np.flatnonzero(~member).tolist() == sorted(leaving)


@pytest.mark.parametrize(
    ("leaving", "message"),
    [
        ([10], "names client 10, but clients have the numbers 0 to 9"),
        ([3, -1], "names client -1, but clients have the numbers 0 to 9"),
        ([3, 7, 3], "names client 3 2 times: name each client once"),
        (range(10), "names all 10 clients, so that nobody is left"),
    ],
)
def test_bad_numbers_are_a_sentence(leaving, message):
    with pytest.raises(InputError, match=message):
        without(list(leaving), 10)


def test_the_list_comes_back_with_what_it_is_of(tmp_path):
    view = {"feature-lift": 7, "feature-norm": 0.5}
    kept = Members(np.array([True, False, True]), Origins("a", "b", "c"), view)
    write_members(tmp_path / "members.h5", kept)
    got = read_members(tmp_path / "members.h5")
    np.testing.assert_array_equal(got.member, kept.member)
    assert (got.origins, got.view) == (kept.origins, kept.view)


@pytest.mark.parametrize("source", ["server", "clients", "features"])
def test_what_is_of_another_run_is_refused(source):
    members = Members(np.ones(3, bool), Origins("a", "b", "c"))
    members.check(3, Origins("a", "b", "c"))
    members.check(3, UNKNOWN)
    other = Origins(**{"server": "a", "clients": "b", "features": "c", source: "d"})
    with pytest.raises(InputError, match=f"members and the {source}.* belong to different runs"):
        members.check(3, other)


def test_another_number_of_clients_is_refused_even_where_origins_are_unknown():
    with pytest.raises(InputError, match="of 3 clients, but there are 4"):
        Members(np.ones(3, bool), UNKNOWN).check(4, UNKNOWN)
