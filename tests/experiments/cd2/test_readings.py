"""Readings differ from the method of the package in the one thing that they name."""

from dataclasses import replace
from functools import cache, partial

import pytest
import torch

from experiments.cd2.readings import (
    OF_CD2,
    averaged_copy,
    cd2_settings,
    kept_momentum,
    private_bias,
    ramped_weight,
    read,
    slabs,
)
from pfl.runtime.rng import stream
from pfl.training.evaluation import model_in_use
from pfl.training.methods.cd2pfed.cd2pfed import average_weight, cd2_pfed
from pfl.training.methods.cd2pfed.decoupled import decouple
from pfl.training.methods.cd2pfed.tracing import trace
from pfl.training.methods.fedavg import fedavg
from pfl.training.methods.local import local
from pfl.training.rounds import model_state
from tests.federations import equal, network, place, play, problem, same
from tests.nets import KINDS, drawn, images
from tests.training.methods.cd2pfed.test_cd2pfed import PAPER
from tests.training.test_settings import PARAMS

SIZES = (13, 7)


@cache
def rounds(make, settings=PAPER):
    """A problem, and its federation after two rounds."""
    of = problem(partial(make, settings=settings), SIZES, rounds=2, epochs=1, batch_size=8)
    return of, play(of)[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("percent", [1, 50])
def test_scores_of_the_slabs_add_up_to_the_joint_scores(kind, percent):
    model = drawn(KINDS[kind]()).train()
    logits = slabs(trace(model), model, percent / 100)(images())
    torch.testing.assert_close(logits.shared + logits.private - model.classifier.bias, logits.joint)
    assert torch.equal(logits.joint, model(images()))


def test_slabs_are_the_sub_networks_where_no_hidden_layer_mixes():
    """One hidden layer on the images: what leads to a channel is the channel's own."""
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(128, 6), torch.nn.Linear(6, 3))
    parts = [forward(trace(model), model, 0.5)(images().float()) for forward in (slabs, decouple)]
    for name in ("joint", "shared", "private"):
        torch.testing.assert_close(*(getattr(one, name) for one in parts))


def test_distilling_slabs_changes_what_is_learned_and_only_with_distillation():
    plain, other = (rounds(make)[1] for make in (cd2_pfed, OF_CD2["slabs"]))
    assert not equal(plain.shared, other.shared)
    off = replace(PAPER, distill=False)
    assert same(rounds(cd2_pfed, off)[1], rounds(OF_CD2["slabs"], off)[1])


def test_a_ramped_weight_is_the_weight_when_all_is_private_that_will_be():
    at_once = replace(PAPER, increase=False)
    assert same(rounds(cd2_pfed, at_once)[1], rounds(ramped_weight, at_once)[1])
    of, begun = rounds(ramped_weight, replace(PAPER, distill_weight=2.0))
    _, half = rounds(cd2_pfed, replace(PAPER, distill_weight=1.0))
    first = [play(of, rounds=1)[0], play(rounds(cd2_pfed)[0], rounds=1)[0]]
    assert same(*first)  # in round 1 of 2, half of the share and half of the weight
    assert not equal(begun.shared, half.shared)


@pytest.mark.parametrize("ratio", [0.0, 0.5])
def test_a_private_bias_is_kept_and_nothing_else_changes_hands(ratio):
    of, federation = rounds(private_bias, replace(PAPER, ratio=ratio))
    usual = rounds(cd2_pfed, replace(PAPER, ratio=ratio))[0].split(2)
    mine = of.split(2)
    assert {name for name in mine if not torch.equal(mine[name], usual[name])} == (
        {"9.bias"} if ratio else set()
    )
    biases = [model_state(place(federation, k, 2).model(of))["9.bias"] for k in (0, 1)]
    assert torch.equal(*biases) == (not ratio)


def used(of, federation, client):
    return model_state(model_in_use(of, place(federation, client, federation.round)))


def test_an_average_that_forgets_at_once_is_the_running_weights():
    settings = replace(PAPER, average_weight=1.0, average_ramp=0.0)
    of, mine = rounds(averaged_copy, settings)
    plain, theirs = rounds(cd2_pfed, replace(settings, average=False))
    assert equal(mine.shared, theirs.shared)
    for client in (0, 1):
        assert equal(mine.members[client].private, theirs.members[client].private)
        assert equal(used(of, mine, client), used(plain, theirs, client))


def test_the_average_is_used_and_training_runs_on():
    of, mine = rounds(averaged_copy)
    plain, theirs = rounds(cd2_pfed, replace(PAPER, average=False))
    assert equal(mine.shared, theirs.shared)
    start, first = of.model.state_dict(), play(plain, rounds=1)[0]
    for client in (0, 1):
        weights = [used(plain, one, client) for one in (first, theirs)]
        kept, split = used(of, mine, client), [of.split(1), of.split(2)]
        download = model_state(place(first, client, 2).model(plain))
        for name in dict(of.model.named_parameters()):
            betas = [average_weight(PAPER, t, 2) for t in (1, 2)]
            once = torch.lerp(start[name], weights[0][name], betas[0])
            begun = torch.where(split[0][name], once, download[name])
            twice = torch.lerp(begun, weights[1][name], betas[1])
            torch.testing.assert_close(
                kept[name], torch.where(split[1][name], twice, weights[1][name])
            )


def test_kept_momentum_makes_rounds_one_long_training():
    """Two rounds of an epoch are then two epochs; with one batch no order matters."""
    once = {"rounds": 2, "epochs": 1, "learning_rate_decay": 1.0}
    of = problem(lambda model: kept_momentum(local(model)), (4,), **once)
    federation, _ = play(of)
    fresh, _ = play(problem(local, (4,), **once))
    model = network().to(memory_format=torch.channels_last)
    context = of.context(0, 1, {}, stream(0, "train", 1, 0))
    local(model).train(model, replace(context, epochs=2))  # one batch an epoch: no order matters
    mine, theirs = (model_state(place(one, 0, 2).model(of)) for one in (federation, fresh))
    for name, value in model.state_dict().items():
        torch.testing.assert_close(mine[name], value)
    assert not equal(mine, theirs)


def test_momentum_of_zero_is_nothing_to_keep():
    plain, kept = (
        play(problem(make, SIZES, rounds=2, momentum=0.0))[0]
        for make in (fedavg, lambda m: kept_momentum(fedavg(m)))
    )
    assert equal(plain.shared, kept.shared)


def test_a_reading_is_of_its_method_and_none_is_the_packages():
    values = PARAMS["train"]["cd2-pfed"]
    assert cd2_settings(values) == replace(PAPER, average_ramp=0.1)
    for name in ["", *OF_CD2, "kept-momentum"]:
        assert read(name, "cd2-pfed", network(), values).name == "cd2-pfed"
    with pytest.raises(ValueError, match="The reading 'slabs' is none of local"):
        read("slabs", "local", network(), {})
