"""Tests of the models: own, pooled and external, against plain loops."""

from dataclasses import replace
from functools import partial

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from pfl.runtime.workers import workers
from pfl.training import evaluation, own_test
from pfl.training.evaluation import Tally, able_clients, predict, score_all, score_clients
from pfl.training.methods.fedavg import fedavg
from pfl.training.methods.fedavg_ft import fedavg_ft
from pfl.training.methods.local import local
from pfl.training.rounds import ClientRound
from pfl.training.split import merge
from tests.federations import SIZES, equal, images, network, play, problem

ABLE = [0, 1, 3, 4]
FINE_TUNED = partial(fedavg_ft, epochs=2, learning_rate=0.05)


def scores(of, processes=1):
    federation, _ = play(of)
    with workers(of, processes) as run:
        found = score_all(of, federation, run)
        alone = score_clients(of, federation, run)
    for test in ("local", "validation"):
        one, other = (getattr(accuracies, test) for accuracies in (found, alone))
        assert (one is None) == (other is None)
        if one is not None:
            assert np.array_equal(one.clients, other.clients, equal_nan=True)
            assert np.array_equal(one.samples, other.samples)
    assert np.array_equal(found.local.nll, alone.local.nll, equal_nan=True)
    return found, federation


def models(of, federation):
    """Each able client's merged model, by a plain loop."""
    normalized = any("running" in name for name in federation.shared)
    for client in ABLE:
        member = federation.members[client]
        model = network(normalized)
        split = of.split(member.last)
        model.load_state_dict(merge(federation.shared, member.private, split))
        yield client, model


def probabilities(model, data):
    model.eval()
    with torch.no_grad():
        return model(data.view(data.stored)).softmax(1).double().numpy()


def right(scores, data):
    return float((scores.argmax(1) == data.label.numpy()).mean())


@pytest.mark.parametrize("make", [fedavg, local])
def test_scores_are_those_of_a_plain_loop(make):
    of = problem(make, external=7)
    found, federation = scores(of)
    tests = of.tests
    for client, model in models(of, federation):
        own = tests.pooled.take(tests.own[client])
        assert found.local.clients[client] == right(probabilities(model, own), own)
        p = probabilities(model, own)
        loss = -np.log(p[np.arange(len(p)), own.label]).mean()
        assert found.local.nll[client] == pytest.approx(loss, abs=1e-6)
        assert found.local.reliability.hits[client].sum() == right(p, own) * len(own)
        kept = tests.validation[client]
        assert found.validation.clients[client] == right(probabilities(model, kept), kept)
        for data, made in ((tests.pooled, found.everybody), (tests.external, found.external)):
            assert made.clients[client] == right(probabilities(model, data), data)
            assert made.samples[client] == len(data)
    for data, made in ((tests.pooled, found.new), (tests.external, found.external)):
        score = made.ensemble
        each = [probabilities(model, data) for _, model in models(of, federation)]
        assert score["mean-probability"] == right(sum(each), data)
        assert score["mean-log-probability"] == right(sum(np.log(p) for p in each), data)
        assert score["vote"] == right(sum(np.eye(3)[p.argmax(1)] for p in each), data)


def test_who_has_no_samples_has_no_score():
    of = problem(local)
    nothing = torch.zeros(0, dtype=torch.int64)
    own = [nothing if client == 1 else rows for client, rows in enumerate(of.tests.own)]
    validation = (*of.tests.validation[:3], images(0), images(0))
    of = replace(of, tests=replace(of.tests, own=own, validation=validation))
    found, _ = scores(of)
    assert np.isnan(found.local.clients).tolist() == [False, True, True, False, False]
    assert np.isnan(found.local.nll).tolist() == [False, True, True, False, False]
    assert np.isnan(found.validation.clients).tolist() == [False, False, True, True, True]
    assert np.isnan(found.everybody.clients).tolist() == [False, False, True, False, False]
    assert able_clients(of) == ABLE
    assert found.external is None


def test_one_shared_model_is_its_own_ensemble():
    found, _ = scores(problem(fedavg))
    assert len(set(found.new.ensemble.values())) == 1
    assert len(set(found.everybody.clients[ABLE])) == 1


@pytest.mark.parametrize("make", [local, FINE_TUNED])
def test_the_number_of_workers_changes_no_score(make):
    (one, _), (two, _) = (scores(problem(make), processes) for processes in (1, 2))
    assert np.array_equal(one.local.clients, two.local.clients, equal_nan=True)
    assert np.array_equal(one.local.nll, two.local.nll, equal_nan=True)
    assert np.array_equal(one.local.ece, two.local.ece, equal_nan=True)
    assert np.array_equal(one.everybody.clients, two.everybody.clients, equal_nan=True)
    assert one.new.ensemble == two.new.ensemble


def test_fine_tuned_models_are_tested_as_they_are_used():
    tuned = problem(partial(fedavg_ft, epochs=30, learning_rate=0.1))
    plain = problem(fedavg)
    ours, federation = scores(tuned)
    theirs, same = scores(plain)
    assert equal(federation.shared, same.shared)
    apart, one = (len(set(found.everybody.clients[ABLE])) for found in (ours, theirs))
    assert apart > 1 == one


def test_the_weight_average_counts_samples():
    of = problem(local, normalized=True)
    found, federation = scores(of)
    sent = [model.state_dict() for _, model in models(of, federation)]
    mean = network(normalized=True)
    mean.load_state_dict(
        {
            name: sum(SIZES[client] * state[name] for client, state in zip(ABLE, sent, strict=True))
            / sum(SIZES)
            for name in federation.shared
        }
    )
    expected = right(probabilities(mean, of.tests.pooled), of.tests.pooled)
    assert found.new.ensemble["weight-average"] == expected


@pytest.mark.parametrize("make", [fedavg, local, FINE_TUNED])
def test_each_model_is_made_once_and_sees_its_users_samples_twice_and_others_once(
    make, monkeypatch
):
    of = problem(make, external=5)
    federation, _ = play(of)
    seen, made = [], []
    for module in (evaluation, own_test):
        monkeypatch.setattr(
            module, "predict", lambda model, data: seen.append(len(data)) or predict(model, data)
        )
    model_of = ClientRound.model
    monkeypatch.setattr(ClientRound, "model", lambda *args: made.append(1) or model_of(*args))
    with workers(of, 1) as run:
        score_all(of, federation, run)
    count = 1 if make is fedavg else len(ABLE)
    own = sum(len(of.tests.validation[k]) + len(of.tests.own[k]) for k in ABLE)
    averaged = len(of.tests.pooled) + len(of.tests.external)
    assert len(made) == count
    assert sum(seen) == count * averaged + own + averaged


@given(
    hnp.arrays(np.float32, (3, 6, 4), elements=st.floats(-50, 50, width=32)),
    hnp.arrays(np.int64, 6, elements=st.integers(0, 3)),
)
def test_a_tally_counts_probabilities_and_votes(logits, label):
    tally = Tally(label)
    for one in logits:
        tally.add(one)
    np.testing.assert_allclose(tally.probability.sum(1), 3)
    assert (tally.votes.sum(1) == 3).all()
    assert tally.single == [float((one.argmax(1) == label).mean()) for one in logits]


def test_votes_that_tie_go_to_the_lower_class():
    tally = Tally(np.array([0, 0]))
    tally.add(np.array([[0, 9, 0], [9, 0, 0]], np.float32))
    tally.add(np.array([[1, 0, 0], [0, 0, 1]], np.float32))
    score = tally.score(np.zeros((2, 3), np.float32))
    assert score["vote"] == 1.0
    assert score["mean-probability"] == 0.5


def test_predictions_do_not_train():
    model = network(normalized=True)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    logits = predict(model, images(9))
    assert logits.shape == (9, 3)
    assert equal(model.state_dict(), before)
