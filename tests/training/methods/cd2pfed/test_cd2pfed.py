import math
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pfl.data.tensors.client_data import ClientData, TestData
from pfl.data.tensors.pixels import PixelView
from pfl.errors import InputError
from pfl.runtime.values import Precision
from pfl.training import sgd
from pfl.training.algorithm import RoundContext
from pfl.training.methods.cd2pfed.cd2pfed import (
    AverageEvery,
    CD2Settings,
    average_weight,
    averaging,
    cd2_pfed,
    round_ratio,
)
from pfl.training.methods.cd2pfed.channels import Cross, crossing
from pfl.training.methods.cd2pfed.decoupled import decouple
from pfl.training.methods.cd2pfed.tracing import trace
from pfl.training.methods.fedavg import fedavg
from pfl.training.methods.local import local
from pfl.training.methods.registry import make_algorithm
from pfl.training.networks import build
from pfl.training.problem import LocalProblem
from pfl.training.rounds import begin, play_round
from tests.federations import training
from tests.nets import channel_split, generator

PAPER = CD2Settings(
    ratio=0.5,
    cross=Cross.BOTH_SHARED,
    increase=True,
    average=True,
    average_weight=0.5,
    average_ramp=0.1,
    average_every=AverageEvery.EPOCH,
    distill=True,
    distill_weight=1.0,
    detach=False,
)
BARE = replace(PAPER, increase=False, average=False, distill=False)
TRAINING = training(learning_rate_decay=1.0)


def data(seed, count=10):
    pixels = torch.randint(256, (count, 8, 8, 1), generator=generator(seed), dtype=torch.uint8)
    label = torch.randint(3, (count,), generator=generator(seed + 1))
    view = PixelView(torch.tensor([0.5]), torch.tensor([0.3]), augment=False)
    return ClientData(pixels, label, view)


def network(name="lenet5"):
    return build(name, 1, 8, 3, generator())


def context(method, samples, number=1, seed=0, **changes):
    """The context of a round of three."""
    own = {"epochs": TRAINING.epochs, "learning_rate": TRAINING.learning_rate} | changes
    alone = {name: own.pop(name) for name in ("epochs", "learning_rate")}
    settings = replace(TRAINING, **own)
    return RoundContext(
        settings, number, method.split(number, 3), {}, **alone,
        data=samples, generator=generator(seed),
    )  # fmt: skip


def trained(settings, name="lenet5", number=1, start=None, **changes):
    """A network after a client's part in a round, and the terms told."""
    model = deepcopy(start) if start else network(name)
    method = cd2_pfed(model, settings)
    told = method.train(model, context(method, data(3), number, seed=5, **changes))
    return model, told


def same(one, other):
    states = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in states)


def play(method, rounds=3):
    """All federated rounds of two clients."""
    model, clients = network("resnet20"), (data(3), data(30, count=5))
    tests = TestData((), data(0), (), None)
    device = torch.device("cpu")
    sizes = [len(one) for one in clients]
    known = method(model), TRAINING, model, sizes
    problem = LocalProblem(*known, dict(enumerate(clients)), tests, device)
    federation = begin(problem)
    for _ in range(rounds):
        federation, told = play_round(
            problem, federation, lambda requests: (one.perform(problem) for one in requests)
        )
    return federation, told


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("cross", Cross)
def test_at_ratio_0_the_method_is_fedavg_bit_for_bit(cross):
    mine, told = play(lambda model: cd2_pfed(model, replace(PAPER, ratio=0.0, cross=cross)))
    theirs, _ = play(fedavg)
    assert equal(mine.shared, theirs.shared)
    assert not any(member.private for member in mine.members)
    assert told.terms["distillation"] == 0


@pytest.mark.parametrize("cross", Cross)
def test_at_ratio_1_without_li_and_ta_it_is_local_training_bit_for_bit(cross):
    settings = replace(PAPER, ratio=1.0, cross=cross, increase=False, average=False)
    mine, told = play(lambda model: cd2_pfed(model, settings))
    theirs, _ = play(local)
    assert told.upload_bytes == 0
    for one, other in zip(mine.members, theirs.members, strict=True):
        assert equal(one.private, other.private)


def test_without_li_ta_and_cd_a_client_trains_plainly():
    mine, _ = trained(BARE)
    theirs = network()
    method = cd2_pfed(theirs, BARE)
    sgd.train(theirs, context(method, data(3), seed=5))
    assert same(mine, theirs)


@pytest.mark.parametrize("piece", ["average", "distill"])
def test_each_piece_changes_the_result(piece):
    assert not same(trained(BARE)[0], trained(replace(BARE, **{piece: True}))[0])


def test_distillation_of_weight_zero_is_none():
    off, _ = trained(BARE)
    weightless, told = trained(replace(BARE, distill=True, distill_weight=0.0))
    assert same(off, weightless)
    assert told["distillation"] > 0


def test_distillation_brings_the_parts_together():
    spread = {}
    for weight in (0.0, 10.0):
        settings = replace(BARE, distill=True, distill_weight=weight)
        _, told = trained(settings, epochs=20)
        spread[weight] = told["distillation"]
    assert spread[10.0] < spread[0.0] / 2


def test_told_loss_is_that_of_the_paper():
    # With a learning rate of 0 the weights stay, and the terms are those of the first network.
    _, told = trained(replace(BARE, distill=True, distill_weight=2.0), learning_rate=0.0)
    _, plain = trained(BARE, learning_rate=0.0)
    assert told["loss"] == pytest.approx(plain["loss"] + 2 * told["distillation"], rel=1e-5)
    assert told["accuracy"] == plain["accuracy"]


@pytest.mark.parametrize("name", ["lenet5", "resnet20"])
def test_same_stream_same_bytes(name):
    assert same(trained(PAPER, name, 2)[0], trained(PAPER, name, 2)[0])


@given(number=st.integers(1, 50), ratio=st.floats(0, 1))
def test_the_private_share_grows_linearly_to_the_ratio(number, ratio):
    settings = replace(PAPER, ratio=ratio)
    assert round_ratio(settings, number, 50) == pytest.approx(ratio * number / 50)
    assert round_ratio(settings, 50, 50) == ratio
    assert round_ratio(replace(settings, increase=False), number, 50) == ratio


def test_the_average_weight_ramps_up_as_the_paper_says():
    weights = [average_weight(PAPER, number, 50) for number in range(1, 51)]
    assert weights[:5] == pytest.approx(
        [0.5 * math.exp(-5 * (1 - t / 5) ** 2) for t in range(1, 6)]
    )
    assert weights[4:] == [0.5] * 46
    assert weights == sorted(weights)
    flat = replace(PAPER, average_ramp=0.0)
    assert [average_weight(flat, number, 50) for number in (1, 50)] == [0.5, 0.5]


@given(beta=st.floats(0.01, 1.0), percent=st.integers(0, 100))
def test_averaging_moves_private_weights_alone(beta, percent):
    model = network()
    split = channel_split(model, percent / 100, Cross.BOTH_SHARED)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    average = averaging(model, split, beta)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 1.0
    moved = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    average()
    for name, weight in model.named_parameters():
        assert torch.equal(weight[~split[name]], moved[name][~split[name]])
        expected = beta * moved[name] + (1 - beta) * before[name]
        torch.testing.assert_close(weight[split[name]], expected[split[name]])


@pytest.mark.parametrize("every", AverageEvery)
def test_averaging_with_weight_1_changes_nothing(every):
    settings = replace(BARE, average=True, average_weight=1.0, average_ramp=0.0)
    assert same(trained(BARE)[0], trained(replace(settings, average_every=every))[0])


def test_averaging_an_epoch_of_one_step_is_averaging_the_step():
    by_epoch, by_step = (trained(replace(PAPER, average_every=every), batch_size=10)[0]
                         for every in AverageEvery)  # fmt: skip
    assert same(by_epoch, by_step)


def test_averaging_every_step_scales_the_private_learning_rate():
    settings = replace(BARE, average=True, average_weight=0.5, average_ramp=0.0)
    private = channel_split(network(), 0.5, Cross.BOTH_SHARED)
    step = {"batch_size": 10, "epochs": 1, "momentum": 0.0}
    half, _ = trained(BARE, learning_rate=0.025, **step)
    full, _ = trained(BARE, learning_rate=0.05, **step)
    by_step = replace(settings, average_every=AverageEvery.STEP)
    averaged, _ = trained(by_step, learning_rate=0.05, **step)
    for name, value in averaged.named_parameters():
        expected = torch.where(private[name], half.get_parameter(name), full.get_parameter(name))
        torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-7)


def test_shared_weights_are_not_averaged_over_time():
    for settings in (BARE, replace(BARE, ratio=0.0)):
        method = cd2_pfed(network(), settings)
        one, _ = trained(settings, epochs=1)
        other, _ = trained(replace(settings, average=True), epochs=1)
        for name, mask in method.split(1, 3).items():
            if name in dict(one.named_parameters()):
                mine, its = one.get_parameter(name), other.get_parameter(name)
                assert torch.equal(mine[~mask], its[~mask])


@pytest.mark.parametrize("name", ["lenet5", "resnet20"])
@pytest.mark.parametrize("distill", [False, True])
def test_without_cross_weights_the_parts_are_two_towers(name, distill):
    settings = replace(PAPER, cross=Cross.NONE, distill=distill)
    model, _ = trained(settings, name, number=2)
    ratio = round_ratio(settings, 2, 3)
    between = crossing(trace(model), model.state_dict(), ratio)
    assert any(mask.any() for mask in between.values())
    assert not any(value[between[name]].any() for name, value in model.state_dict().items())
    images = next(data(3).in_order(10))[0]
    logits = decouple(trace(model), model, ratio)(images)
    towers = logits.shared + logits.private - model.classifier.bias
    torch.testing.assert_close(logits.joint, towers, rtol=1e-4, atol=1e-5)


def test_cross_weights_of_a_late_download_are_taken_away_before_use():
    model = network()
    settings = replace(PAPER, cross=Cross.NONE)
    method = cd2_pfed(model, settings)
    method.personalize(model, context(method, data(3), 3))
    between = crossing(trace(model), model.state_dict(), 0.5)
    fresh = network()
    for name, value in model.state_dict().items():
        expected = fresh.state_dict()[name].masked_fill(between[name], 0)
        assert torch.equal(value, expected)
    assert cd2_pfed(model, PAPER).personalize is None


def test_one_image_is_enough():
    model = network("resnet20")
    method = cd2_pfed(model, PAPER)
    method.train(model, context(method, data(3, count=1)))
    assert all(value.isfinite().all() for value in model.state_dict().values())


def test_bfloat16_gives_finite_terms():
    model = network()
    method = cd2_pfed(model, PAPER)
    told = method.train(model, context(method, data(3), precision=Precision.bf16))
    assert all(math.isfinite(value) for value in told.values())


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("ratio", 1.5, "ratio is 1.5"),
        ("ratio", math.nan, "ratio is nan"),
        ("average-weight", 0.0, "average-weight is 0.0: choose a number with 0 < x ≤ 1"),
        ("average-ramp", -0.1, "average-ramp is -0.1"),
        ("distill-weight", math.inf, "distill-weight is inf"),
    ],
)
def test_settings_out_of_range_are_refused(name, value, shown):
    with pytest.raises(InputError, match=f"train.cd2-pfed.{shown}"):
        settings = {key.replace("_", "-"): own for key, own in vars(PAPER).items()}
        make_algorithm("cd2-pfed", network(), settings | {name: value}, "train.cd2-pfed")
