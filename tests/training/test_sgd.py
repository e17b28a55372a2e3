"""Local training is plain SGD, and what it tells are means over samples."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from pfl.runtime.values import Precision
from pfl.training.sgd import cross_entropy, descend, train
from tests.federations import equal, generator, images, network, problem


def context(data, seed=0, **changes):
    """A round's context for a client with these samples."""
    return replace(problem(**changes).context(0, 1, {}, generator(seed)), data=data)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("nesterov", [False, True])
def test_training_is_a_plain_loop(normalized, nesterov):
    data = images(11)
    ours, plain = network(normalized), network(normalized)
    train(ours, context(data, nesterov=nesterov))
    optimizer = torch.optim.SGD(
        plain.parameters(), 0.05, momentum=0.9, nesterov=nesterov, weight_decay=5e-4, fused=True
    )
    plain.train()
    order = generator()
    for _ in range(2):
        for pixels, label in data.batches(4, order):
            optimizer.zero_grad()
            F.cross_entropy(plain(pixels), label).backward()
            optimizer.step()
    assert equal(ours.state_dict(), plain.state_dict())


def test_terms_are_means_over_samples():
    """With a learning rate of zero every pass sees the same network."""
    data, model = images(11), network()
    told = train(model, replace(context(data), learning_rate=0.0))
    logits = model(data.view(data.stored)).detach()
    assert told["loss"] == pytest.approx(float(F.cross_entropy(logits, data.label)), rel=1e-5)
    hits = (logits.argmax(1) == data.label).double().mean()
    assert told["accuracy"] == pytest.approx(float(hits))


@pytest.mark.parametrize("seed", range(3))
def test_training_helps(seed):
    """At a rate without chaos: with each of 20 seeds, the loss fell to between 0.20 and 0.22."""
    first, last = (
        train(network(), context(images(60), seed, learning_rate=0.005, epochs=epochs))["loss"]
        for epochs in (1, 20)
    )
    assert last < 0.5 * first


def test_only_the_parameters_given_move():
    model, start = network(), network().state_dict()
    descend(model, model[9].parameters(), context(images(9)), cross_entropy)
    changed = {name for name, value in model.state_dict().items() if not start[name].equal(value)}
    assert changed == {"9.weight", "9.bias"}


def test_without_momentum_nesterov_has_no_meaning():
    left, right = network(), network()
    train(left, context(images(9), momentum=0.0, nesterov=True))
    train(right, context(images(9), momentum=0.0, nesterov=False))
    assert equal(left.state_dict(), right.state_dict())


def test_bfloat16_rounds_products_and_keeps_weights_in_float32():
    left, right = network(), network()
    told = train(left, context(images(20)))
    rounded = train(right, context(images(20), precision=Precision.bf16))
    assert told["loss"] != rounded["loss"] == pytest.approx(told["loss"], rel=0.02)
    assert {value.dtype for value in right.state_dict().values()} == {torch.float32}
