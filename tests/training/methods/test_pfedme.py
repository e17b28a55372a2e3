"""pFedMe: its one step that is FedAvg's, its limits, and the step of its algorithm."""

from functools import partial

import pytest
import torch
from torch.nn import functional as F

from pfl.errors import InputError
from pfl.training.methods.fedavg import fedavg
from pfl.training.methods.pfedme import pfedme
from pfl.training.methods.registry import make_algorithm
from tests.federations import equal, network, place, play, problem
from tests.training.methods.test_baselines import ABLE, used


@pytest.mark.parametrize("normalized", [False, True])
def test_one_inner_step_all_the_way_is_fedavg(normalized):
    """K = 1 and ηλ = 1: θ is w whenever a batch begins, where the pull is zero."""
    make = partial(pfedme, attraction=4.0, inner_steps=1, learning_rate=0.25)
    envelope, _ = play(problem(make, normalized=normalized))
    plain, _ = play(problem(fedavg, normalized=normalized))
    assert equal(envelope.shared, plain.shared)


def test_without_a_step_nothing_is_shared_but_the_beginning():
    of = problem(partial(pfedme, attraction=1.0, inner_steps=2, learning_rate=0.0))
    federation, _ = play(of)
    assert equal(federation.shared, network().state_dict())
    assert not equal(used(of, federation, 0), federation.shared)


def test_the_pull_holds_the_personal_model_near():
    def distance(attraction):
        of = problem(partial(pfedme, attraction=attraction, inner_steps=3, learning_rate=0.0))
        return play(of, rounds=1)[1][0].terms["distance"]

    assert distance(0.0) > distance(1.0) > distance(10.0) > 0


def test_a_client_uses_its_last_theta():
    of = problem(partial(pfedme, attraction=1.0, inner_steps=2, learning_rate=0.5))
    federation, _ = play(of)
    for client in ABLE:
        assert equal(used(of, federation, client), federation.members[client].memory)


def test_a_step_is_that_of_the_algorithm():
    """One batch, no momentum: K gradient steps by hand, and the shared weights' way to them."""
    rate, pull, eta, steps = 0.1, 2.0, 0.3, 3
    settings = {"momentum": 0.0, "weight_decay": 0.0, "epochs": 1, "batch_size": 99}
    make = partial(pfedme, attraction=pull, inner_steps=steps, learning_rate=eta)
    of = problem(make, sizes=(9,), learning_rate=rate, **settings)
    first = place(play(of, rounds=0)[0], 0, 1)
    model, theta, context = first.model(of), network(), first.context(of, "train")
    start = [w.detach().clone() for w in model.parameters()]
    inputs, label = next(of.clients[0].batches(99, first.context(of, "train").generator))
    for _ in range(steps):
        theta.zero_grad()
        F.cross_entropy(theta(inputs), label).backward()
        with torch.no_grad():
            for w, anchor in zip(theta.parameters(), start, strict=True):
                w -= rate * (w.grad + pull * (w - anchor))
    of.algorithm.train(model, context)
    for name, w in theta.named_parameters():
        torch.testing.assert_close(context.memory[name], w.detach())
    for w, own, before in zip(model.parameters(), theta.parameters(), start, strict=True):
        torch.testing.assert_close(w.detach(), before - eta * pull * (before - own.detach()))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"attraction": -1.0}, "attraction"),
        ({"inner-steps": 0}, "inner-steps"),
        ({"learning-rate": float("inf")}, "learning-rate"),
        ({"learning-rate": 2.0}, "attraction and learning-rate multiply to 2,"),
    ],
)
def test_settings_out_of_range_are_named(change, name):
    settings = {"attraction": 1.0, "inner-steps": 1, "learning-rate": 1.0} | change
    with pytest.raises(InputError, match=rf"^train\.pfedme\.{name}"):
        make_algorithm("pfedme", network(), settings, "train.pfedme")
