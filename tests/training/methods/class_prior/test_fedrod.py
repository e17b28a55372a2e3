"""FedRoD: a generic head that no client's prior bends, and a head beside it that never leaves."""

from dataclasses import replace

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from pfl.runtime.workers import workers
from pfl.training.evaluation import predict, score_all
from pfl.training.methods.class_prior.fedrod import balance, both_losses, fedrod
from pfl.training.methods.fedavg import fedavg
from tests.federations import CLASSES, equal, images, network, play, problem
from tests.training.methods.test_baselines import ABLE, used
from tests.training.methods.test_heads import problem as head_problem


def batch(count=12, seed=3):
    data = images(count, seed)
    return data.view(data.stored), data.label


def own_of(value, model):
    head = nn.Linear(model[-1].in_features, model[-1].out_features)
    for weight in head.parameters():
        nn.init.constant_(weight, value)
    return head


def test_with_classes_as_frequent_the_balanced_loss_is_the_plain_one():
    assert torch.equal(balance(torch.tensor([2, 0, 1, 1, 0, 2]), 3), torch.zeros(3))
    label = torch.arange(12) % CLASSES
    even = lambda size, seed: replace(images(size, seed), label=label[:size])  # noqa: E731
    of = problem(fedrod, sizes=(12, 6))
    of = replace(of, clients={0: even(12, 1), 1: even(6, 2)})
    plain = replace(of, algorithm=fedavg(network()))
    assert equal(play(of)[0].shared, play(plain)[0].shared)


def test_the_balanced_loss_is_that_of_its_equation():
    model, (inputs, label) = network(), batch()
    held = torch.tensor([0] * 5 + [1] * 3 + [2])
    value, terms = both_losses(own_of(0.0, model), balance(held, CLASSES))(model, inputs, label)
    weighted = torch.tensor([5.0, 3.0, 1.0]) * model(inputs).exp()
    expected = -(weighted[range(len(label)), label] / weighted.sum(1)).log().mean()
    torch.testing.assert_close(terms["loss"], expected.detach())
    torch.testing.assert_close(value - terms["loss"], terms["personal-loss"], atol=1e-6, rtol=0)


def test_a_class_that_the_client_has_not_is_not_pushed_down():
    """Its row of the generic head gets no gradient; every number stays finite."""
    model, (inputs, _) = network(), batch()
    label = torch.arange(len(inputs)) % 2
    loss = both_losses(own_of(0.0, model), balance(label, CLASSES))
    loss(model, inputs, label)[0].backward()
    assert torch.equal(model[-1].weight.grad[2], torch.zeros(8))
    assert all(w.grad.isfinite().all() for w in model.parameters())
    assert model[-1].weight.grad[:2].abs().sum() > 0


def test_neither_loss_has_a_gradient_for_the_others_weights():
    model, (inputs, label) = network(), batch()
    even = torch.zeros(CLASSES)
    F.cross_entropy(model(inputs), label).backward()
    plain = [w.grad.clone() for w in model.parameters()]
    for start in (0.0, 0.7):
        own = own_of(start, model)
        with torch.no_grad():
            own.weight[0] += start
        model.zero_grad()
        both_losses(own, even)(model, inputs, label)[0].backward()
        assert all(torch.equal(w.grad, p) for w, p in zip(model.parameters(), plain, strict=True))
    features = model[:-1](inputs).detach()
    total = model[-1](features).detach() + own(features)
    expected = torch.autograd.grad(F.cross_entropy(total, label), own.weight)[0]
    torch.testing.assert_close(own.weight.grad, expected)


def test_the_own_head_is_remembered_and_never_sent():
    of = problem(fedrod)
    federation, told = play(of)
    assert [one.upload_bytes for one in told] == [
        one.upload_bytes for one in play(problem(fedavg))[1]
    ]
    assert federation.shared.keys() == network().state_dict().keys()
    for client in ABLE:
        member = federation.members[client]
        assert member.private == {} and set(member.memory) == {"weight", "bias"}
        assert member.memory["weight"].abs().sum() > 0


def test_the_scores_at_use_are_the_sum_of_both_heads():
    of = problem(fedrod)
    federation, _ = play(of)
    data = images(9, seed=7)
    generic = network()
    generic.load_state_dict(federation.shared)
    model, memory = network(), federation.members[0].memory
    model.load_state_dict(used(of, federation, 0))
    features = predict(generic[:-1], data)
    own = features @ memory["weight"].numpy().T + memory["bias"].numpy()
    np.testing.assert_allclose(predict(model, data), predict(generic, data) + own, atol=1e-4)


def test_without_an_own_head_clients_use_the_generic_model():
    of = problem(fedrod, fraction=0.2)
    federation, _ = play(of, rounds=1)
    absent = next(client for client in ABLE if federation.members[client].last == 0)
    assert equal(used(of, federation, absent), federation.shared)
    zero = {"weight": torch.zeros(CLASSES, 8), "bias": torch.zeros(CLASSES)}
    member = replace(federation.members[absent], memory=zero)
    members = [member if k == absent else one for k, one in enumerate(federation.members)]
    known = replace(federation, members=tuple(members))
    assert equal(used(of, known, absent), federation.shared)


def test_others_samples_see_the_generic_model():
    of, plain = problem(fedrod, external=8), problem(fedavg, external=8)
    federation, _ = play(of)
    always_0 = {"weight": torch.zeros(CLASSES, 8), "bias": torch.tensor([1e4, 0.0, 0.0])}
    members = tuple(replace(member, memory=always_0) for member in federation.members)
    federation = replace(federation, members=members)
    bare = replace(federation, members=play(plain, rounds=0)[0].members)
    found = []
    for made, state in ((of, federation), (plain, bare)):
        with workers(made, 1) as run:
            found.append(score_all(made, state, run))
    ours, theirs = found
    assert np.array_equal(ours.everybody.clients, theirs.everybody.clients, equal_nan=True)
    assert ours.new.ensemble == theirs.new.ensemble
    assert ours.external.ensemble == theirs.external.ensemble
    for client in ABLE:
        label = of.tests.pooled.label[of.tests.own[client]].numpy()
        assert ours.local.clients[client] == (label == 0).mean()


def test_a_linear_networks_own_head_is_a_local_linear_head():
    of = head_problem("fedrod", rounds=20)
    federation, told = play(of)
    memory = federation.members[0].memory
    assert memory["weight"].shape == federation.shared["classifier.weight"].shape
    assert told[-1].terms["personal-loss"] < told[0].terms["personal-loss"]
