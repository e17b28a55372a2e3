from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.errors import InputError
from pfl.privacy.secure_aggregation.client import mask, reveal, share
from pfl.privacy.secure_aggregation.keys import MASK, agree
from pfl.privacy.secure_aggregation.masks import add_mask, subtract_mask
from pfl.privacy.secure_aggregation.messages import Letters, Question
from tests.privacy.secure_aggregation.steps import Steps, numbers, random_vectors

CLIENTS = 5


@pytest.fixture
def steps():
    return Steps(random_vectors(CLIENTS, 30))


@given(st.integers(2, 7), st.sampled_from([None, 2, 4]), st.integers(0, 2**32 - 1))
def test_pairwise_masks_cancel_and_the_own_ones_do_not(clients, neighbors, seed):
    steps = Steps(random_vectors(clients, 5, seed), neighbors, seed)
    total = sum(map(numbers, steps.masked))
    assert not np.array_equal(total, sum(steps.vectors))
    for secrets in steps.secrets:
        subtract_mask(total, secrets.seed)
    np.testing.assert_array_equal(total, sum(steps.vectors))


def test_one_upload_looks_uniform():
    """χ² of its bytes for an upload of nothing but zeros: mean 255, standard deviation 22.6."""
    steps = Steps([np.zeros(50_000, np.uint64)] * 3)
    for masked in steps.masked:
        counts = np.bincount(np.frombuffer(masked.vector, np.uint8), minlength=256)
        expected = counts.sum() / 256
        assert 255 - 5 * 22.6 < ((counts - expected) ** 2 / expected).sum() < 255 + 5 * 22.6


def test_the_vector_stays_as_it_was(steps):
    before = random_vectors(CLIENTS, 30)
    np.testing.assert_array_equal(steps.vectors, before)


def test_an_upload_that_comes_late_stays_hidden(steps):
    """The peers have given back its mask key: its own mask is why it has two."""
    late = steps.secrets[2]
    upload = numbers(steps.masked[2]).copy()
    keys = {u: a.mask_key for u, a in steps.introduced.adverts.items() if u != 2}
    for other, seed in agree(late.mask_key, keys, MASK).items():
        (subtract_mask if other > 2 else add_mask)(upload, seed)
    expected = steps.vectors[2].copy()
    add_mask(expected, late.seed)
    np.testing.assert_array_equal(upload, expected)
    assert not (upload == steps.vectors[2]).any()


REFUSED = {
    "both secrets": (Question(0, (1, 2, 3), (3, 4)), "both secrets of client 3"),
    "a stranger": (Question(0, (1, 2, 9), ()), "strangers"),
    "itself": (Question(0, (0, 1, 2), ()), "strangers"),
    "another's question": (Question(1, (0, 2, 3), ()), "another's place"),
    "too few": (Question(0, (1, 2), (3, 4)), "2 neighbors of client 0 remain, 3 are needed"),
    "too few, the same one thrice": (Question(0, (1, 1, 1), ()), "1 neighbors"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_questions_that_could_disclose_an_upload_are_refused(steps, case):
    question, words = REFUSED[case]
    with pytest.raises(InputError, match=words):
        reveal(steps.waiting[0], question)


def test_a_client_answers_one_question(steps):
    """A second one could ask for the other secret of a neighbor."""
    question = Question(0, (1, 2, 3), (4,))
    waiting, answer = reveal(steps.waiting[0], question)
    assert answer.seed_shares.keys() == {1, 2, 3}
    assert answer.key_shares.keys() == {4}
    assert reveal(waiting, question) == (waiting, answer)
    for other in (Question(0, (1, 2, 3, 4), ()), Question(0, (1, 2, 4), (3,))):
        with pytest.raises(InputError, match="second, different question"):
            reveal(waiting, other)


@pytest.mark.parametrize("threshold", [0, 1, 2, 5])
def test_a_threshold_that_lets_a_server_have_both_secrets_is_refused(steps, threshold):
    """Of 4 neighbors, 2 may be told that the client is lost and 2 that it is not."""
    introduction = replace(steps.introductions[0], threshold=threshold)
    with pytest.raises(InputError, match=f"{threshold} of 4 neighbors"):
        share(steps.secrets[0], introduction, steps.entropy)


def test_a_neighbor_that_is_introduced_twice_is_refused(steps):
    """It would count as two that hide the client."""
    first = steps.introductions[0]
    twice = replace(first, neighbors=(*first.neighbors[1:], first.neighbors[1]))
    with pytest.raises(InputError, match="neighbors twice"):
        share(steps.secrets[0], twice, steps.entropy)
    with pytest.raises(InputError, match="another's place"):
        share(steps.secrets[0], steps.introductions[1], steps.entropy)


def test_a_client_does_not_mask_with_too_few(steps):
    few = Letters(0, {1: b"", 2: b""})
    with pytest.raises(InputError, match="2 neighbors of client 0 remain, 3 are needed"):
        mask(steps.sharing[0], few, steps.vectors[0])


@pytest.mark.parametrize("letters", [Letters(0, {7: b""}), Letters(1, {2: b"", 3: b"", 4: b""})])
def test_letters_of_strangers_are_refused(steps, letters):
    with pytest.raises(InputError, match="not for it or of strangers"):
        mask(steps.sharing[0], letters, steps.vectors[0])


def test_secrets_are_not_printed(steps):
    shown = repr([steps.waiting, steps.sharing, steps.secrets])
    for one in steps.secrets:
        for secret in (one.sealing_key, one.mask_key, one.seed):
            assert repr(secret) not in shown
