import itertools
from dataclasses import astuple, replace

import pytest

from pfl.errors import InputError
from pfl.privacy.secure_aggregation.client import point
from pfl.privacy.secure_aggregation.messages import Letters, Masked
from pfl.privacy.secure_aggregation.server import collect, deliver, finish
from pfl.privacy.secure_aggregation.shamir import split
from tests.privacy.secure_aggregation.steps import Steps, numbers, random_vectors

CLIENTS = 5


@pytest.fixture
def steps():
    return Steps(random_vectors(CLIENTS, 30))


def all_bytes(message):
    """Every string of bytes in a message."""
    if isinstance(message, bytes):
        yield message
    elif isinstance(message, dict):
        yield from message.values()
    elif isinstance(message, tuple):
        for part in message:
            yield from all_bytes(part)


def test_the_server_sees_neither_uploads_nor_secrets_but_what_it_may_recover(steps):
    """Nor does what it gets when one client is lost hold the seed of that one's mask."""
    collected, questions = steps.collect(lost={4})
    answers = steps.answers(questions)
    finish(collected, answers)
    seen = [*steps.messages, *questions.values(), *answers]
    view = b"|".join(part for message in seen for part in all_bytes(astuple(message)))
    for one, vector in zip(steps.secrets, steps.vectors, strict=True):
        assert numbers(steps.masked[one.client]).tobytes() in view
        assert vector[:2].tobytes() not in view
        for secret in (one.sealing_key, one.mask_key, one.seed):
            assert secret not in view
    for answer in answers:
        assert answer.seed_shares.keys() == set(range(4)) - {answer.client}
        assert answer.key_shares.keys() == {4}


def test_no_sum_over_some_of_the_uploads_is_free_of_masks(steps):
    for size in range(1, CLIENTS + 1):
        for some in itertools.combinations(range(CLIENTS), size):
            masked = sum(numbers(steps.masked[u]) for u in some)
            assert not (masked == sum(steps.vectors[u] for u in some)).any()


def test_too_few_at_each_step_is_refused(steps):
    """Three of each one's four neighbors are needed."""
    deliver(steps.introduced, steps.sealed[:4])
    with pytest.raises(InputError, match="2 of client 0's 4 neighbors, and 3 are needed"):
        deliver(steps.introduced, steps.sealed[:3])
    steps.collect(lost={0})
    with pytest.raises(InputError, match="2 of client 2's 4 neighbors"):
        steps.collect(lost={0, 1})
    collected, questions = steps.collect()
    answers = steps.answers(questions)
    finish(collected, answers[:4])
    with pytest.raises(InputError, match="Too few clients remain"):
        finish(collected, answers[:3])


@pytest.mark.parametrize("step", ["deliver", "collect"])
def test_nobody_is_refused(steps, step):
    with pytest.raises(InputError, match="No client remains"):
        deliver(steps.introduced, []) if step == "deliver" else collect(steps.delivered, [])


def test_a_client_counts_once(steps):
    with pytest.raises(InputError, match="Client 1 sent a masked vector that is not expected"):
        collect(steps.delivered, [*steps.masked, steps.masked[1]])


def test_an_upload_of_a_client_that_has_not_shared_is_refused(steps):
    delivered, _ = deliver(steps.introduced, steps.sealed[:4])
    with pytest.raises(InputError, match="Client 4 sent"):
        collect(delivered, steps.masked)


def test_uploads_of_different_lengths_are_refused(steps):
    short = Masked(1, steps.masked[1].vector[:-8])
    with pytest.raises(InputError, match="Client 1 sent 29 numbers and the others 30"):
        collect(steps.delivered, [steps.masked[0], short])


def test_a_key_that_was_not_advertised_is_refused(steps):
    """The sum would be wrong and nobody would see it."""
    collected, questions = steps.collect(lost={4})
    wrong = split(b"w" * 32, 3, [point(u) for u in range(4)], steps.entropy)
    answers = [replace(a, key_shares={4: wrong[point(a.client)]}) for a in steps.answers(questions)]
    with pytest.raises(InputError, match="shares of client 4 do not give the key"):
        finish(collected, answers)


def test_letters_go_to_their_receivers_only(steps):
    for u, got in steps.letters.items():
        assert got == Letters(u, {v: steps.sealed[v].sealed[u] for v in range(CLIENTS) if v != u})
