"""Joining and leaving, in any order, ends with the bytes of a run of those who stayed."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pfl.errors import InputError
from pfl.fedhip.membership import forget, join, solve_sums
from pfl.fedhip.moments import Moments, moments, total
from pfl.fedhip.server import read_sums, write_server
from tests.fedhip.test_moments import of, zero
from tests.strategies import federations

BETAS = st.sampled_from([None, 0.5, 30.0])


def written(path, summed, beta):
    write_server(path, summed, solve_sums(summed, beta), automatic=beta is None)
    return path.read_bytes()


@settings(max_examples=30)  # each writes several files to disk
@given(federations(max_clients=6), BETAS, st.data())
def test_any_joins_and_leaves_end_with_the_bytes_of_a_fresh_run(
    tmp_path_factory, federation, beta, data
):
    """Each step goes through the file, as by the commands; groups join and leave together too."""
    sent = [of(federation, k) for k in range(federation.clients)]
    folder = tmp_path_factory.mktemp("s")
    present = data.draw(st.sets(st.sampled_from(range(len(sent))), min_size=1))
    summed = total([sent[k] for k in present], zero(federation))
    assume(summed.samples > 0)
    written(folder / "server.h5", summed, beta)
    groups = st.sets(st.sampled_from(range(len(sent))), min_size=1)
    for group in data.draw(st.lists(groups, max_size=4)):
        going, coming = sorted(group & present), sorted(group - present, reverse=True)
        summed, kept = read_sums(folder / "server.h5")
        assert kept == beta
        summed = join(summed, [sent[k] for k in coming])
        if sum(sent[k].samples for k in going) < summed.samples:
            summed = forget(summed, [sent[k] for k in going])
            present -= set(going)
        present |= set(coming)
        written(folder / "server.h5", summed, kept)
    fresh = total([sent[k] for k in sorted(present)], zero(federation))
    assert written(folder / "fresh.h5", fresh, beta) == (folder / "server.h5").read_bytes()


@settings(max_examples=20)
@given(federations(), BETAS)
def test_the_file_tells_how_beta_came_about_but_not_of_whom_it_is(
    tmp_path_factory, federation, beta
):
    assume(beta is not None or federation.rows.any())  # of zeros no beta can be chosen
    folder = tmp_path_factory.mktemp("s")
    sent = [of(federation, k) for k in range(federation.clients)]
    one = written(folder / "a.h5", total(sent, zero(federation)), beta)
    assert one == written(folder / "b.h5", total(sent[::-1], zero(federation)), beta)
    summed, kept = read_sums(folder / "a.h5")
    assert (summed, kept) == (total(sent, zero(federation)), beta)
    chosen = solve_sums(summed, beta).beta
    given_now = written(folder / "c.h5", summed, chosen)
    assert (given_now == one) is (beta is not None)


def client(labels, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-99, 100, (len(labels), 4)).astype(np.int16)
    return moments(rows, np.array(labels), 3, 0.5)


def test_the_last_client_cannot_leave():
    only = client([0, 1, 2])
    nobody = Moments.zero(4, 3, 0.5)
    with pytest.raises(InputError, match="No sample would be left"):
        forget(only + nobody, [only])


def test_a_client_that_was_never_added_is_noticed_where_counts_or_sums_show_it():
    """More samples of a class than there are; all of a class but another sum; all but one Gram."""
    present = client([0, 0, 1])
    with pytest.raises(InputError, match="2 samples of class 1"):
        forget(present, [client([1, 1])])
    with pytest.raises(InputError, match="other samples were added"):
        forget(present, [client([1], seed=1)])
    one, same = ([[1, 3], [3, 1]], [[2, 2], [2, 2]])
    a, b = (moments(np.array(rows, np.int16), np.array([0, 0]), 1, 0.5) for rows in (one, same))
    with pytest.raises(InputError, match="other samples were added"):
        a - b


def test_what_stays_unnoticed_is_undone_by_joining_again():
    """Another client of no more samples: wrong sums, and no way to tell. It can be put right."""
    present, stranger = client([0, 0, 0, 1, 1, 2]), client([0, 1], seed=1)
    wrong = forget(present, [stranger])
    assert wrong.samples == 4
    assert join(wrong, [stranger]) == present


def test_clients_of_another_backbone_or_list_of_classes_are_refused():
    for change in (join, forget):
        with pytest.raises(InputError, match="Use one backbone"):
            change(client([0]), [Moments.zero(5, 3, 0.5)])
