"""Tests of models as they were just trained: of the right weights, and beside the usual ones."""

from functools import partial

import numpy as np
import pytest
import torch

from pfl.runtime.rng import stream
from pfl.runtime.workers import workers
from pfl.training.methods.ditto import ditto
from pfl.training.methods.fedavg import fedavg
from pfl.training.methods.fedper import fedper
from pfl.training.methods.local import local
from pfl.training.own_test import own_test, predict
from pfl.training.rounds import begin, play_round
from pfl.training.run import train_and_test
from pfl.training.settings import Models
from pfl.training.sgd import train
from pfl.training.tested import places_after, trained_places
from tests.federations import equal, network, problem, same

PER_LAYER = partial(fedper, private_layers=2)


def result(folder, make=fedavg, test=Models.DOWNLOADED, processes=1, **changes):
    return train_and_test(problem(make, test=test, **changes), folder, processes)


def numbers(accuracies):
    tests = (accuracies.local, accuracies.validation)
    return [one.clients.tobytes() for one in tests] + [accuracies.local.nll.tobytes()]


def plainly_trained(of, client):
    """What the client has after the first round's training, by a plain loop."""
    model = network().to(memory_format=torch.channels_last)
    train(model, of.context(client, 1, {}, stream(of.training.seed, "train", 1, client)))
    return model


@pytest.mark.parametrize("make", [fedavg, PER_LAYER, partial(ditto, attraction=0.1), local])
def test_what_one_test_names_the_other_has_beside(tmp_path, make):
    down = result(tmp_path / "down", make, evaluate_every=1, external=4)
    up = result(tmp_path / "up", make, Models.TRAINED, evaluate_every=1, external=4, processes=2)
    assert same(down.federation, up.federation)
    assert numbers(down.accuracies) == numbers(up.other)
    assert numbers(down.other) == numbers(up.accuracies)
    for one, other in zip(down.history, up.history, strict=True):
        for test in ("local-test", "validation"):
            assert one[test] == other[f"{test}:downloaded"]
            assert one[f"{test}:trained"] == other[test]


def test_the_models_are_those_of_plain_training(tmp_path):
    of = problem(rounds=1, test=Models.TRAINED)
    made = train_and_test(of, tmp_path, 1).accuracies
    pooled = []
    for client in (0, 1, 3, 4):
        model = plainly_trained(of, client)
        plain = own_test(of, model, client)
        assert made.local.clients[client] == plain.accuracy
        assert made.validation.clients[client] == plain.validation
        pooled.append(torch.from_numpy(predict(model, of.tests.pooled)).double())
        right = (pooled[-1].argmax(1) == of.tests.pooled.label).double().mean()
        assert made.everybody.clients[client] == right
    ensemble = sum(logits.softmax(1) for logits in pooled).argmax(1)
    assert made.new.ensemble["mean-probability"] == (
        (ensemble == of.tests.pooled.label).double().mean()
    )


def test_averaging_hurts_where_clients_differ(tmp_path):
    """Each client has one class: alone it is right at home, the average is not."""
    of = problem(sizes=(9, 9, 9), rounds=1, epochs=30, learning_rate=0.1)
    clients = {
        k: type(one)(one.stored, torch.full_like(one.label, k), one.view)
        for k, one in of.clients.items()
    }
    own = [torch.nonzero(of.tests.pooled.label == k)[:, 0] for k in range(3)]
    tests = type(of.tests)(of.tests.validation, of.tests.pooled, own, None)
    of = type(of)(of.algorithm, of.training, of.model, of.sizes, clients, tests, of.device)
    made = train_and_test(of, tmp_path, 1)
    assert np.all(made.other.local.clients == 1)
    assert made.accuracies.local.clients.mean() < 0.7


@pytest.mark.parametrize(("make", "sizes"), [(local, (13, 1, 0, 7)), (fedavg, (11,))])
def test_where_nobody_else_is_averaged_both_are_the_same(make, sizes):
    of = problem(make, sizes=sizes)
    with workers(of, 1) as run:
        before = begin(of)
        after, summary = play_round(of, before, run)
    able = [k for k, size in enumerate(sizes) if size]
    trained = trained_places(of, before, summary.updates)
    assert bool(trained) == (make is fedavg)
    pairs = (places_after(after, able, own) for own in (trained, []))
    for one, other in zip(*pairs, strict=True):
        assert equal(one.model(of).state_dict(), other.model(of).state_dict())


def test_who_took_no_part_is_tested_with_the_download():
    of = problem(PER_LAYER, fraction=0.5)
    with workers(of, 1) as run:
        before = begin(of)
        after, summary = play_round(of, before, run)
    trained = trained_places(of, before, summary.updates)
    found = places_after(after, [0, 1, 3, 4], trained)
    assert [place.client for place in found] == [0, 1, 3, 4]
    for place in found:
        took_part = place.client in summary.participants
        assert equal(place.shared, after.shared) != took_part
