"""FedAvg with the client's class prior: FedAvg's rounds, Bayes' theorem at use, nobody else's."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from pfl.errors import InputError
from pfl.runtime.class_prior import log_prior_ratio, shares
from pfl.runtime.workers import workers
from pfl.training.evaluation import predict, score_all, score_clients
from pfl.training.methods.class_prior.fedavg_prior import fedavg_prior
from pfl.training.methods.fedavg import fedavg
from pfl.training.methods.registry import COUNTED, METHODS, make_algorithm
from tests.federations import CLASSES, SIZES, equal, images, network, play, problem, same
from tests.training.methods.test_baselines import ABLE, used

CORRECTED = partial(fedavg_prior, smoothing=0.1)


def counted(make=CORRECTED, **changes):
    """A problem whose clients have told their class counts."""
    of = problem(make, **changes)
    return replace(of, class_count=sum(counts(of, client) for client in range(len(of.sizes))))


def counts(of, client):
    return np.bincount(of.clients[client].label.numpy(), minlength=CLASSES)


def scored(of, federation):
    with workers(of, 1) as run:
        return score_all(of, federation, run), score_clients(of, federation, run)


def test_the_rounds_are_fedavgs():
    assert same(play(counted())[0], play(problem(fedavg))[0])


def test_at_use_the_scores_are_those_of_all_and_the_log_ratio_of_the_priors():
    of = counted()
    federation, _ = play(of)
    plain = network()
    plain.load_state_dict(federation.shared)
    others = images(9, seed=7)
    for client in range(len(SIZES)):
        model = network()
        model.load_state_dict(used(of, federation, client))
        ratio = log_prior_ratio(counts(of, client), shares(of.class_count), 0.1)
        np.testing.assert_allclose(
            predict(model, others), predict(plain, others) + ratio, atol=1e-5
        )


def test_a_client_that_has_classes_as_everybody_has_them_uses_the_shared_model():
    of = problem(CORRECTED)
    of = replace(of, class_count=3 * counts(of, 0))
    federation, _ = play(of, rounds=1)
    torch.testing.assert_close(used(of, federation, 0), dict(federation.shared))


def test_much_smoothing_leaves_the_shared_model_and_little_forbids_what_a_client_has_not():
    of = counted(sizes=(13, 1))
    federation, _ = play(of, rounds=1)
    smooth = replace(of, algorithm=fedavg_prior(network(), 1e9))
    torch.testing.assert_close(used(smooth, federation, 1), dict(federation.shared))
    sharp = replace(of, algorithm=fedavg_prior(network(), 1e-30))
    model = network()
    model.load_state_dict(used(sharp, federation, 1))
    chosen = predict(model, images(20, seed=9)).argmax(1)
    assert set(chosen) == set(of.clients[1].label.tolist())


def test_a_client_without_samples_uses_the_shared_model():
    of = counted()
    federation, _ = play(of, rounds=1)
    absent = SIZES.index(0)
    assert equal(used(of, federation, absent), federation.shared)


def test_others_samples_see_the_model_without_a_prior():
    of, plain = counted(external=8), problem(fedavg, external=8)
    federation, _ = play(of)
    (ours, alone), (theirs, _) = scored(of, federation), scored(plain, federation)
    for test in ("everybody", "external"):
        one, other = getattr(ours, test), getattr(theirs, test)
        assert np.array_equal(one.clients, other.clients, equal_nan=True)
        assert one.ensemble == other.ensemble
    assert ours.new.ensemble == theirs.new.ensemble
    assert np.array_equal(ours.local.clients, alone.local.clients, equal_nan=True)
    for client in ABLE:
        model = network()
        model.load_state_dict(used(of, federation, client))
        own = of.tests.pooled.take(of.tests.own[client])
        right = (predict(model, own).argmax(1) == own.label.numpy()).mean()
        assert ours.local.clients[client] == right


def test_class_counts_are_told_once_by_every_client_with_samples():
    summaries, plain = play(counted())[1], play(problem(fedavg))[1]
    more = [one.upload_bytes - two.upload_bytes for one, two in zip(summaries, plain, strict=True)]
    assert more == [4 * CLASSES * len(ABLE), 0, 0]


def test_the_registry_knows_whose_clients_tell_counts():
    settings = {"fedavg-prior": {"smoothing": 0.1}}
    for name in ("fedavg-prior", "fedrod", "fedavg", "local"):
        made = make_algorithm(name, network(), settings.get(name, {}), "train.this")
        assert (made.told > 0) == (name in COUNTED)
    assert METHODS.keys() >= COUNTED


@pytest.mark.parametrize("smoothing", [0.0, -1.0, float("inf"), float("nan")])
def test_smoothing_is_above_0(smoothing):
    with pytest.raises(InputError, match=r"^train\.fedavg-prior\.smoothing is"):
        make_algorithm("fedavg-prior", network(), {"smoothing": smoothing}, "train.fedavg-prior")
