"""The attacks on an upload: they find what is there, and claim nothing that is not."""

import inspect

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pfl.fedhip.moments import moments
from pfl.fedhip.paper_recursion import paper_upload
from pfl.privacy.leakage import attack as attacks
from pfl.privacy.leakage.attack import Intercepted, attack
from pfl.privacy.leakage.modular import times
from tests.oracles import one_hot, rational_rank
from tests.strategies import STEP, federations

CLASSES = 4
seeds = st.integers(0, 2**32 - 1)


def intercepted(rows, labels, classes):
    sent = moments(rows, labels, classes, STEP)
    return Intercepted(sent.gram, sent.cross)


def attacked(rows, labels, classes=CLASSES, seed=0):
    return attack(intercepted(rows, labels, classes), np.random.default_rng(seed))


def client(samples, width, seed, classes=CLASSES):
    """Rows like a network's features, positive and with a large common part, sorted by label."""
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.integers(0, classes, samples))
    means = rng.uniform(500, 1500, (classes, width))
    rows = np.abs(means[labels] + rng.normal(0, 400, (samples, width))).astype(np.int16)
    return rows, labels


@st.composite
def independent_clients(draw):
    """Clients whose features are independent, by the oracle, with any of one to twelve samples."""
    width = draw(st.integers(2, 12))
    rows, labels = client(draw(st.integers(1, width)), width, draw(seeds))
    assume(rational_rank(rows) == len(rows))
    return rows, labels


@given(independent_clients(), seeds)
def test_independent_samples_are_counted_exactly_without_the_counts(own, seed):
    rows, labels = own
    found = attacked(rows, labels, seed=seed)
    assert found.exact
    assert found.rank == len(rows)
    assert found.counts.tolist() == np.bincount(labels, minlength=CLASSES).tolist()


@given(independent_clients())
def test_the_only_sample_of_a_class_is_found_to_the_last_integer(own):
    rows, labels = own
    found = attacked(rows, labels)
    counts = np.bincount(labels, minlength=CLASSES)
    assert np.flatnonzero(found.single).tolist() == np.flatnonzero(counts == 1).tolist()
    for c in np.flatnonzero(found.single):
        assert np.array_equal(found.cross[c], rows[labels == c][0])


@given(independent_clients(), seeds)
def test_own_samples_are_recognized_and_others_are_not(own, seed):
    rows, labels = own
    strangers, _ = client(5, rows.shape[1], seed)
    outside = [rational_rank(np.vstack([rows, one])) > len(rows) for one in strangers]
    found = attacked(rows, labels)
    assert found.members(rows).all()
    if len(rows) < rows.shape[1]:
        assert found.members(strangers).tolist() == [not one for one in outside]


@given(independent_clients())
def test_the_key_is_orthogonal_to_the_own_samples_alone_and_the_solution_labels_them(own):
    rows, labels = own
    sent = intercepted(rows, labels, CLASSES)
    rank, solution, key = attacks.solve(sent, np.random.default_rng(0))
    assert key.shape == (rows.shape[1], attacks.KEYS if rank < rows.shape[1] else 0)
    assert not times(rows.astype(float), key).any()
    assert np.array_equal(times(rows.astype(float), solution), one_hot(labels, CLASSES))


@given(federations())
def test_whatever_the_samples_the_rank_is_right_and_the_own_ones_pass(federation):
    """Dependent rows, zeros, more samples than features, none at all."""
    for k in range(federation.clients):
        rows, labels = federation.of(k)
        if not len(rows):
            continue
        found = attacked(rows, labels, federation.classes)
        assert found.rank == rational_rank(rows)
        assert found.members(rows).all()
        assert found.exact or found.rank < len(rows)


@given(federations())
def test_everything_is_claimed_only_where_the_columns_are_all_rows(federation):
    for k in range(federation.clients):
        rows, labels = federation.of(k)
        if not len(rows):
            continue
        found = attacked(rows, labels, federation.classes)
        alone = np.bincount(labels).max() == 1
        if alone:
            assert found.everything
        if found.everything:
            columns = found.cross.astype(int)
            assert np.array_equal(columns.T @ columns, rows.astype(int).T @ rows.astype(int))


def test_one_sample_alone_gives_everything():
    rows, labels = client(1, 6, 0)
    found = attacked(rows, labels)
    assert found.everything
    assert found.single.sum() == 1
    assert np.array_equal(found.cross[found.single][0], rows[0])


def test_two_equal_samples_are_not_taken_for_one():
    rows, labels = client(1, 6, 0)
    found = attacked(np.repeat(rows, 2, axis=0), np.repeat(labels, 2))
    assert (found.rank, found.everything, found.single.any()) == (1, False, False)


def test_no_samples_give_nothing():
    found = attacked(np.zeros((0, 5), np.int16), np.zeros(0, int))
    assert (found.rank, found.counts.sum()) == (0, 0)
    assert not found.members(np.ones((3, 5), np.int16)).any()


def test_features_that_are_always_zero_change_nothing():
    rows, labels = client(5, 12, 3)
    rows[:, :4] = 0
    found = attacked(rows, labels)
    assert (found.rank, found.exact) == (5, True)
    strangers, _ = client(30, 12, 4)
    strangers[:, :4] = 0
    assert not found.members(strangers).any()


def test_slightly_more_samples_than_features_hide_no_membership():
    """Full rank: every feature is in range(S), but others' have fᵀS⁻¹f > 1."""
    rows, labels = client(44, 40, 0)
    strangers, _ = client(200, 40, 1)
    found = attacked(rows, labels)
    assert (found.rank, found.exact) == (40, False)
    assert found.members(rows).all()
    assert found.members(strangers).mean() < 0.2


def test_many_samples_hide_membership_and_nothing_is_claimed_to_be_exact():
    rows, labels = client(2000, 10, 0)
    strangers, _ = client(200, 10, 1)
    found = attacked(rows, labels)
    assert not found.exact
    assert found.members(rows).all()
    assert found.members(strangers).all()
    assert not found.single.any()


def test_many_samples_are_still_counted_roughly():
    rows, labels = client(2000, 40, 0)
    found = attacked(rows, labels)
    assert np.bincount(labels) == pytest.approx(found.counts, rel=0.05)


def test_others_in_the_same_subspace_are_not_taken_for_own_for_that():
    """Rank below m for want of dimensions, not of samples."""
    rows, labels = client(44, 40, 0)
    strangers, _ = client(200, 40, 1)
    empty = np.zeros((200, 5), np.int16)
    found = attacked(np.hstack([rows, empty[:44]]), labels)
    assert (found.rank, found.exact) == (40, False)
    assert found.members(np.hstack([rows, empty[:44]])).all()
    assert found.members(np.hstack([strangers, empty])).mean() < 0.2


def test_a_matrix_that_is_singular_modulo_the_prime_by_chance_is_no_error(monkeypatch):
    monkeypatch.setattr(attacks, "eliminate", lambda system, pivots: pivots - 1)
    rows, labels = client(44, 10, 0)
    found = attacked(rows, labels)
    assert (found.rank, found.exact) == (10, False)
    assert found.members(rows).all()


@given(independent_clients(), seeds, seeds)
def test_findings_do_not_depend_on_the_random_numbers(own, one, other):
    first, second = attacked(*own, seed=one), attacked(*own, seed=other)
    assert (first.rank, first.exact) == (second.rank, second.exact)
    assert np.array_equal(first.counts, second.counts)
    strangers, _ = client(20, own[0].shape[1], one)
    assert np.array_equal(first.members(strangers), second.members(strangers))


def test_the_attacker_is_not_given_the_counts():
    fields = inspect.get_annotations(Intercepted)
    assert set(fields) == {"gram", "cross"}


@given(independent_clients(), st.sampled_from([0.5, 1.0, 8.0]))
def test_the_papers_upload_gives_the_same_integers(own, beta):
    """S = C − βI and B = C L, rounded to whole steps, are the upload that is attacked here."""
    rows, labels = own
    sent = paper_upload(moments(rows, labels, CLASSES, STEP), beta)
    cross = np.rint(sent.gram @ sent.head / STEP).astype(np.int64).T
    gram = np.rint((sent.gram - beta * np.eye(rows.shape[1])) / STEP**2).astype(np.int64)
    taken = Intercepted(gram[np.triu_indices(len(gram))], cross)
    expected = intercepted(rows, labels, CLASSES)
    assert np.array_equal(taken.gram, expected.gram)
    assert np.array_equal(taken.cross, expected.cross)
