"""APFL: between FedAvg and local training, and exactly these at its ends."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.func import functional_call
from torch.nn import functional as F

from pfl.errors import InputError
from pfl.training.methods.apfl import apfl
from pfl.training.methods.fedavg import fedavg
from pfl.training.methods.local import local
from pfl.training.methods.registry import make_algorithm
from tests.federations import SIZES, equal, network, place, play, problem
from tests.training.methods.test_baselines import ABLE, model_of, used

normalized = pytest.mark.parametrize("normalized", [False, True])


@normalized
@pytest.mark.parametrize("adaptive", [False, True])
def test_the_shared_model_is_fedavgs_whatever_the_mixture(normalized, adaptive):
    make = partial(apfl, alpha=0.4, adaptive=adaptive)
    mixed, _ = play(problem(make, normalized=normalized))
    plain, _ = play(problem(fedavg, normalized=normalized))
    assert equal(mixed.shared, plain.shared)


def test_with_alpha_0_clients_use_the_shared_model():
    of = problem(partial(apfl, alpha=0.0, adaptive=False))
    federation, _ = play(of)
    for client in range(len(SIZES)):
        assert equal(used(of, federation, client), federation.shared)


@normalized
def test_with_alpha_1_clients_train_alone(normalized):
    of = problem(partial(apfl, alpha=1.0, adaptive=False), normalized=normalized)
    alone = problem(local, normalized=normalized)
    mixed, single = play(of)[0], play(alone)[0]
    for client in ABLE:
        assert equal(used(of, mixed, client), model_of(alone, single, client))


def test_who_never_took_part_uses_the_shared_model():
    of = problem(partial(apfl, alpha=0.5, adaptive=True), fraction=0.2)
    federation, _ = play(of, rounds=1)
    absent = next(client for client in ABLE if federation.members[client].last == 0)
    torch.testing.assert_close(used(of, federation, absent), dict(federation.shared))


def test_a_step_is_that_of_the_algorithm():
    """One batch, no momentum: the three updates, from gradients computed apart."""
    settings = {"momentum": 0.0, "weight_decay": 0.0, "epochs": 1, "batch_size": 99}
    of = problem(partial(apfl, alpha=0.3, adaptive=True), sizes=(9,), learning_rate=0.1, **settings)
    first = place(play(of, rounds=0)[0], 0, 1)
    own = {name: w.detach() + 0.1 for name, w in network().named_parameters()}
    memory = {f"own/{name}": w for name, w in own.items()} | {"alpha": torch.tensor(0.3)}
    first = replace(first, member=replace(first.member, memory=memory))
    context, model = first.context(of, "train"), first.model(of)
    shared = {name: w.detach().clone() for name, w in model.named_parameters()}
    alpha = torch.tensor(0.3, requires_grad=True)
    v = {name: w.clone().requires_grad_() for name, w in own.items()}
    mixture = {name: alpha * v[name] + (1 - alpha) * shared[name] for name in v}
    inputs, label = next(of.clients[0].batches(99, first.context(of, "train").generator))
    F.cross_entropy(functional_call(network(), mixture, (inputs,)), label).backward()
    of.algorithm.train(model, context)
    for name, w in own.items():
        torch.testing.assert_close(context.memory[f"own/{name}"], w - 0.1 * v[name].grad)
    torch.testing.assert_close(context.memory["alpha"], (alpha - 0.1 * alpha.grad).detach())


def test_alpha_adapts_and_stays_a_share():
    of = problem(partial(apfl, alpha=0.5, adaptive=True), learning_rate=0.3, momentum=0.0)
    federation, _ = play(of)
    found = [float(federation.members[client].memory["alpha"]) for client in ABLE]
    assert all(0 <= alpha <= 1 for alpha in found)
    assert len({*found, 0.5}) == len(ABLE) + 1


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")])
def test_settings_out_of_range_are_named(alpha):
    with pytest.raises(InputError, match=r"heads\.mine\.settings\.alpha is"):
        make_algorithm("apfl", network(), {"alpha": alpha, "adaptive": True}, "heads.mine.settings")
