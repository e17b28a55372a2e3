"""Rounds: who takes part, what is sent and kept, and that nothing else changes the result."""

from dataclasses import replace

import pytest
import torch

from pfl.errors import InputError
from pfl.runtime.rng import stream
from pfl.runtime.workers import workers
from pfl.training.algorithm import Algorithm
from pfl.training.methods.fedavg import fedavg
from pfl.training.methods.fedper import fedper
from pfl.training.methods.local import local
from pfl.training.rounds import begin, model_state, participants, places, play_round
from pfl.training.sgd import train
from pfl.training.split import keep, merge, private_where, upload
from tests.federations import SIZES, equal, network, place, play, problem, same, training


def two_private(model):
    return fedper(model, 2)


def growing(model):
    """A split that grows from round to round, one layer at a time from the top."""
    splits = [fedper(model, n).split(1, 3) for n in (1, 2, 3)]
    return Algorithm("growing", lambda number, rounds: splits[number - 1], train)


@pytest.mark.parametrize("make", [fedavg, two_private, local, growing])
@pytest.mark.parametrize("normalized", [False, True])
def test_the_number_of_workers_changes_nothing(make, normalized):
    (one, told), (two, also) = (play(problem(make, normalized=normalized), n) for n in (1, 2))
    assert same(one, two)
    assert told == also


def test_one_client_alone_is_plain_training():
    alone = problem(sizes=(11,))
    federation, _ = play(alone)
    model = network().to(memory_format=torch.channels_last)
    for number in (1, 2, 3):
        train(model, alone.context(0, number, {}, stream(0, "train", number, 0)))
    assert equal(federation.shared, model.state_dict())


def test_a_client_that_has_nothing_never_takes_part():
    federation, told = play(problem(local))
    assert [summary.participants for summary in told] == [(0, 1, 3, 4)] * 3
    assert [member.last for member in federation.members] == [3, 3, 0, 3, 3]


def test_clients_with_one_class_and_one_sample_train():
    one_class = problem(normalized=True, sizes=(6, 1))
    label = torch.ones(6, dtype=torch.int64)
    clients = one_class.clients | {0: replace(one_class.clients[0], label=label)}
    federation, told = play(replace(one_class, clients=clients))
    assert told[-1].terms["loss"] < told[0].terms["loss"]
    assert all(value.isfinite().all() for value in federation.shared.values())


def test_uploads_are_what_is_shared_and_nothing_else():
    of = problem(two_private)
    federation, told = play(of, rounds=1)
    head = {"7.weight", "7.bias", "9.weight", "9.bias"}
    body = federation.shared.keys() - head
    assert told[0].upload_bytes == 4 * 4 * sum(federation.shared[name].numel() for name in body)
    start = network().state_dict()
    assert all(torch.equal(federation.shared[name], start[name]) for name in head)
    assert not any(torch.equal(federation.shared[name], start[name]) for name in body)
    assert [member.private.keys() for member in federation.members] == [
        head if size else set() for size in SIZES
    ]


def test_what_turns_private_starts_from_the_value_downloaded():
    of = problem(growing, sizes=(5, 8))
    with workers(of, 1) as run:
        federation, _ = play_round(of, begin(of), run)
        started = model_state(place(federation, 1, 2).model(of))
    first, second = of.split(1), of.split(2)
    newly = {name: second[name] & ~first[name] for name in second}
    assert any(mask.any() for mask in newly.values())
    for name, mask in newly.items():
        assert torch.equal(started[name][mask], federation.shared[name][mask])
    assert equal(keep(started, first), federation.members[1].private)


def test_who_misses_rounds_goes_on_from_its_last_one():
    of = problem(growing, fraction=0.5)
    federation, told = play(of)
    for client, member in enumerate(federation.members):
        rounds = [s.round for s in told if client in s.participants]
        assert member.last == max(rounds, default=0)
        state = merge(federation.shared, member.private, of.split(member.last))
        assert equal(keep(state, of.split(member.last)), member.private)
    assert {member.last for member in federation.members} != {3}


def test_the_server_averages_by_samples():
    of = problem(sizes=(2, 9))
    federation, _ = play(of, rounds=1)
    alone = []
    for client in (0, 1):
        model = network()
        train(model, of.context(client, 1, {}, stream(0, "train", 1, client)))
        alone.append(model.state_dict())
    for name, value in federation.shared.items():
        torch.testing.assert_close(value, (2 * alone[0][name] + 9 * alone[1][name]) / 11)


def test_the_order_of_answers_changes_nothing():
    of = problem(two_private)
    with workers(of, 1) as run:
        usual, _ = play_round(of, begin(of), run)
        turned, _ = play_round(of, begin(of), lambda requests: run(requests[::-1]))
    assert same(usual, turned)


def test_the_same_seed_gives_the_same_run_and_another_another():
    first, again, other = (play(problem(two_private, seed=seed))[0] for seed in (0, 0, 1))
    assert same(first, again)
    assert not equal(first.shared, other.shared)


def test_participants_are_a_fresh_share_of_those_with_data():
    sizes = [5] * 30 + [0] * 10
    chosen = [participants(training(fraction=0.1), sizes, number) for number in range(1, 200)]
    assert {len(clients) for clients in chosen} == {3}
    assert all(clients == sorted(set(clients)) for clients in chosen)
    assert set().union(*chosen) == set(range(30))
    for tiny in (1e-6, 1e-15):
        assert participants(training(fraction=tiny), sizes, 1) == participants(
            training(fraction=1 / 30), sizes, 1
        )


def test_lost_clients_stay_as_they_were():
    sizes = [5] * 30
    everybody = training(fraction=0.5)
    for number in range(1, 20):
        kept = participants(replace(everybody, client_dropout=0.4), sizes, number)
        assert set(kept) <= set(participants(everybody, sizes, number))
    counts = [
        len(participants(replace(everybody, client_dropout=0.4), sizes, t)) for t in range(400)
    ]
    assert sum(counts) / 400 == pytest.approx(15 * 0.6, rel=0.05)


def test_a_round_that_loses_everybody_changes_nothing():
    of = problem(two_private, client_dropout=0.999)
    federation, told = play(of, rounds=1)
    assert told[0].participants == () and told[0].terms == {} and told[0].upload_bytes == 0
    assert same(replace(federation, round=0), begin(of))


def test_the_learning_rate_decays():
    of = problem(learning_rate=0.5, learning_rate_decay=0.1)
    rates = [of.context(0, t, {}, stream(0, "train", t, 0)).learning_rate for t in (1, 2, 3)]
    assert rates == pytest.approx([0.5, 0.05, 0.005])


@pytest.mark.parametrize("processes", [1, 2])
def test_divergence_stops_with_round_client_and_advice(processes):
    with pytest.raises(InputError, match=r"round \d.* client \d.*Lower rounds\.learning-rate"):
        play(problem(learning_rate=1e30), processes)


def test_weights_that_diverge_stop_too():
    def spoil(model, context):
        torch.nn.init.constant_(model[0].weight, float("nan"))
        return {"loss": 1.0}

    def make(model):
        return replace(fedavg(model), train=spoil)

    with pytest.raises(InputError, match=r"a weight of client 0"):
        play(problem(make))


def test_a_download_never_has_another_clients_private_weights():
    of = problem(two_private)
    federation, _ = play(of)
    download, *others = (client.shared for client in places(federation, [0, 1, 3, 4], 4))
    assert all(other is download for other in others)
    split = private_where(federation.shared, lambda name: name[0] in "79")
    start = network().state_dict()
    assert equal(keep(download, split), keep(start, split))
    assert upload(federation.shared, split).keys() == {"0.weight", "0.bias", "3.weight", "3.bias"}
