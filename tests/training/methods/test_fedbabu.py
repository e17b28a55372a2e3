"""FedBABU: the head waits while the body learns, and learns when the model is used."""

from functools import partial

import pytest
import torch

from pfl.errors import InputError
from pfl.training.layers import end_layers
from pfl.training.methods.fedbabu import fedbabu
from pfl.training.methods.registry import make_algorithm
from tests.federations import SIZES, equal, network, play, problem
from tests.training.methods.test_baselines import model_of, used

MAKE = partial(fedbabu, head_layers=1, epochs=2, learning_rate=0.05)


def test_the_head_stays_as_it_began_and_the_body_moves():
    of = problem(MAKE)
    federation, _ = play(of)
    head, start = end_layers(network(), 1, True, "x"), network().state_dict()
    for client in range(len(SIZES)):
        after = model_of(of, federation, client)
        for name, value in start.items():
            assert torch.equal(after[name], value) == (name in head)


def test_the_head_is_not_sent():
    _, told = play(problem(MAKE), rounds=1)
    body = sum(w.numel() for n, w in network().state_dict().items() if n[0] != "9")
    assert told[0].upload_bytes == 4 * body * sum(size > 0 for size in SIZES)


def test_fine_tuning_moves_everything_and_keeps_nothing():
    of = problem(MAKE)
    federation, _ = play(of)
    tuned, before = used(of, federation, 0), model_of(of, federation, 0)
    assert not any(torch.equal(tuned[name], before[name]) for name in tuned)
    still = problem(partial(fedbabu, head_layers=1, epochs=2, learning_rate=0.0))
    assert equal(used(still, federation, 0), before)


def test_settings_out_of_range_are_named():
    settings = {"head-layers": 1, "epochs": 1, "learning-rate": 0.1}
    for name, value in (("head-layers", 4), ("epochs", 0)):
        with pytest.raises(InputError, match=rf"train\.fedbabu\.{name} is {value}"):
            make_algorithm("fedbabu", network(), settings | {name: value}, "train.fedbabu")
