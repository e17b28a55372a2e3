"""Each baseline's own law, most of them a limit in which it is another method, bit for bit."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from pfl.errors import InputError
from pfl.training.methods.common import proximal, train_part
from pfl.training.methods.ditto import ditto
from pfl.training.methods.fedavg import fedavg
from pfl.training.methods.fedavg_ft import fedavg_ft
from pfl.training.methods.fedbn import fedbn
from pfl.training.methods.fedper import fedper
from pfl.training.methods.fedprox import fedprox
from pfl.training.methods.fedrep import fedrep
from pfl.training.methods.lg_fed import End, lg_fed
from pfl.training.methods.local import local
from pfl.training.methods.registry import make_algorithm
from pfl.training.networks import build
from pfl.training.rounds import model_state
from pfl.training.split import merge, upload
from tests.federations import SIZES, equal, generator, network, place, play, problem, same

ABLE = [client for client, size in enumerate(SIZES) if size]


def model_of(of, federation, client):
    member = federation.members[client]
    return merge(federation.shared, member.private, of.split(member.last))


def test_fedavg_keeps_nothing_and_local_sends_nothing():
    together, _ = play(problem(fedavg))
    alone, told = play(problem(local))
    assert all(member.private == {} for member in together.members)
    assert equal(alone.shared, network().state_dict())
    assert [summary.upload_bytes for summary in told] == [0, 0, 0]


def test_with_one_client_sharing_makes_no_difference():
    sizes = (9,)
    makes = [
        fedavg,
        local,
        partial(fedper, private_layers=1),
        partial(lg_fed, shared_layers=2, shared_end=End.TOP),
    ]
    runs = [(of, play(of)[0]) for of in (problem(make, sizes=sizes) for make in makes)]
    models = [model_of(of, federation, 0) for of, federation in runs]
    assert all(equal(models[0], other) for other in models[1:])


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_fedper_and_lg_fed_are_complements(layers):
    model = network()
    per = fedper(model, layers).split(1, 1)
    top = lg_fed(model, layers, End.TOP).split(1, 1)
    bottom = lg_fed(model, 4 - layers, End.BOTTOM).split(1, 1)
    assert all(torch.equal(per[name], ~top[name]) for name in per)
    assert equal(per, bottom)


@pytest.mark.parametrize("name", ["lenet5", "resnet20"])
def test_fedper_keeps_the_classifier(name):
    model = build(name, 3, 32, 10, generator())
    sent = upload(model.state_dict(), fedper(model, 1).split(1, 1))
    assert model.state_dict().keys() - sent.keys() == {"classifier.weight", "classifier.bias"}


def test_lg_fed_sends_the_top_alone():
    of = problem(partial(lg_fed, shared_layers=1, shared_end=End.TOP))
    federation, told = play(of)
    assert told[0].upload_bytes == len(ABLE) * 4 * (8 * 3 + 3)
    assert all("9.weight" not in member.private for member in federation.members)


def test_fedprox_without_pull_is_fedavg():
    (left, told), (right, also) = (
        play(problem(make)) for make in (fedavg, partial(fedprox, mu=0.0))
    )
    assert same(left, right)
    assert all(a.terms["loss"] == b.terms["loss"] for a, b in zip(told, also, strict=True))


def test_fedprox_holds_clients_near_the_download():
    moves = [
        play(problem(partial(fedprox, mu=mu)), rounds=1)[1][0].terms["distance"]
        for mu in (0.0, 1.0, 10.0)
    ]
    assert moves[0] > moves[1] > moves[2] > 0


def test_fedprox_has_the_gradient_of_its_equation():
    model = network()
    loss = proximal([2 * p for p in model.parameters()], 3.0)
    pixels, label = torch.zeros(2, 1, 6, 6), torch.zeros(2, dtype=torch.int64)
    value, terms = loss(model, pixels, label)
    value.backward()
    pulled = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    loss = proximal(model.parameters(), 0.0)
    loss(model, pixels, label)[0].backward()
    for parameter, gradient in zip(model.parameters(), pulled, strict=True):
        torch.testing.assert_close(gradient, parameter.grad + 3 * (parameter - 2 * parameter))
    square = sum(float(p.detach().square().sum()) for p in model.parameters())
    assert float(terms["distance"]) == pytest.approx(square, rel=1e-5)


@pytest.mark.parametrize("normalized", [False, True])
def test_dittos_shared_model_is_fedavgs(normalized):
    pulled, _ = play(problem(partial(ditto, attraction=0.3), normalized=normalized))
    plain, _ = play(problem(fedavg, normalized=normalized))
    assert equal(pulled.shared, plain.shared)


@pytest.mark.parametrize("normalized", [False, True])
def test_dittos_personal_model_without_attraction_is_local_training(normalized):
    of = problem(partial(ditto, attraction=0.0), normalized=normalized)
    alone = problem(local, normalized=normalized)
    pulled, single = play(of)[0], play(alone)[0]
    for client in ABLE:
        assert equal(pulled.members[client].memory, model_of(alone, single, client))
        assert equal(used(of, pulled, client), model_of(alone, single, client))


def test_dittos_attraction_pulls_to_the_shared_model():
    def distance(attraction):
        of = problem(partial(ditto, attraction=attraction))
        return play(of)[1][-1].terms["personal-distance"]

    assert distance(0.0) > distance(1.0) > distance(10.0)


def used(of, federation, client):
    """The state of the model that a client uses."""
    own = place(federation, client, federation.round)
    model = own.model(of)
    of.algorithm.personalize(model, own.context(of, "p"))
    return model_state(model)


def test_who_never_took_part_uses_the_shared_model():
    of = problem(partial(ditto, attraction=0.1), fraction=0.2)
    federation, _ = play(of, rounds=1)
    absent = next(client for client in ABLE if federation.members[client].last == 0)
    assert equal(used(of, federation, absent), federation.shared)


def test_fine_tuning_changes_what_is_used_and_not_what_is_shared():
    of = problem(partial(fedavg_ft, epochs=3, learning_rate=0.01))
    federation, _ = play(of)
    assert same(federation, play(problem(fedavg))[0])
    tuned = used(of, federation, 0)
    assert equal(tuned, used(of, federation, 0))
    assert not any(torch.equal(tuned[name], federation.shared[name]) for name in tuned)
    still = problem(partial(fedavg_ft, epochs=3, learning_rate=0.0))
    assert equal(used(still, federation, 0), federation.shared)


def test_fedbn_keeps_weights_and_statistics_of_normalization():
    of = problem(fedbn, normalized=True)
    federation, _ = play(of)
    norms = {name for name in network(True).state_dict() if name[0] in "14"}
    assert {frozenset(federation.members[client].private) for client in ABLE} == {frozenset(norms)}
    assert equal(
        {name: federation.shared[name] for name in norms},
        {name: network(True).state_dict()[name] for name in norms},
    )


def test_fine_tunings_learning_rate_does_not_decay():
    slow, steady = (
        problem(partial(fedavg_ft, epochs=2, learning_rate=0.1), learning_rate_decay=decay)
        for decay in (0.1, 1.0)
    )
    federation, _ = play(slow, rounds=2)
    assert equal(used(slow, federation, 0), used(steady, federation, 0))


def test_fedbn_wants_normalization():
    with pytest.raises(InputError, match="normalization"):
        fedbn(network())


def test_fedrep_trains_the_head_first_and_then_the_body():
    of = problem(partial(fedrep, private_layers=1, head_epochs=2), sizes=(9,), epochs=1)
    model = place(play(of, rounds=0)[0], 0, 1).model(of)
    context = of.context(0, 1, {}, generator())
    start = {name: value.clone() for name, value in model.state_dict().items()}
    head = network()
    head.load_state_dict(start)
    twice = replace(context, epochs=2, generator=generator())
    train_part(head, twice, lambda name: name[0] == "9")
    of.algorithm.train(model, context)
    for name in start:
        assert torch.equal(head.state_dict()[name], start[name]) == (name[0] != "9")
        assert torch.equal(model.state_dict()[name], head.state_dict()[name]) == (name[0] == "9")


def test_fedreps_split_is_fedpers():
    rep = fedrep(network(), 2, 1).split(1, 1)
    assert equal(rep, fedper(network(), 2).split(1, 1))


@pytest.mark.parametrize(
    ("method", "settings", "name"),
    [
        ("fedprox", {"mu": -1.0}, "mu"),
        ("ditto", {"attraction": float("inf")}, "attraction"),
        ("fedrep", {"private-layers": 1, "head-epochs": 0}, "head-epochs"),
        ("fedavg-ft", {"epochs": 0, "learning-rate": 0.1}, "epochs"),
        ("fedavg-ft", {"epochs": 1, "learning-rate": -0.1}, "learning-rate"),
        ("fedper", {"private-layers": 9}, "private-layers"),
        ("lg-fed", {"shared-layers": 0, "shared-end": "bottom"}, "shared-layers"),
    ],
)
@pytest.mark.parametrize("section", ["train.this", "heads.mine.settings"])
def test_settings_out_of_range_are_named_by_their_key(method, settings, name, section):
    with pytest.raises(InputError, match=f"^{section}.{name} is {settings[name]}"):
        make_algorithm(method, network(), settings, section)
