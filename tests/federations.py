"""Small federated problems for the tests."""

import torch
from torch import nn

from pfl.data.tensors.client_data import ClientData, TestData
from pfl.data.tensors.pixels import PixelView
from pfl.runtime.values import Device, Precision
from pfl.runtime.workers import workers
from pfl.training.methods.fedavg import fedavg
from pfl.training.problem import LocalProblem
from pfl.training.rounds import ClientRound, begin, places, play_round
from pfl.training.settings import Models, Training

CLASSES, SIDE = 3, 6
SIZES = (13, 1, 0, 7, 10)  # one client has one sample, one has none


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def images(count, seed=0, channels=1, augment=False):
    """Noise whose brightness tells the class, as well as noise can."""
    g = generator(seed)
    label = torch.randint(0, CLASSES, (count,), generator=g)
    noise = torch.randint(0, 120, (count, SIDE, SIDE, channels), generator=g)
    pixels = (noise + 60 * label[:, None, None, None]).to(torch.uint8)
    mean, std = torch.full((channels,), 0.45), torch.full((channels,), 0.25)
    return ClientData(pixels, label, PixelView(mean, std, augment))


def network(normalized=False, seed=0):
    """Two convolutions and two linear layers, with weights from a generator."""
    norms = [nn.BatchNorm2d(4), nn.BatchNorm2d(6)] if normalized else [nn.Identity()] * 2
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), norms[0], nn.ReLU(),
        nn.Conv2d(4, 6, 3), norms[1], nn.ReLU(),
        nn.Flatten(), nn.Linear(96, 8), nn.ReLU(), nn.Linear(8, CLASSES),
    )  # fmt: skip
    for module in model:
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.normal_(module.weight, 0, 0.2, generator=generator(seed))
            nn.init.zeros_(module.bias)
    return model


def training(**changes):
    settings = {
        "section": "rounds", "rate_section": "rounds", "seed": 0, "rounds": 3, "epochs": 2,
        "batch_size": 4, "learning_rate": 0.05, "learning_rate_decay": 0.9, "momentum": 0.9,
        "nesterov": True, "weight_decay": 5e-4, "fraction": 1.0, "client_dropout": 0.0,
        "validation_fraction": 0.0, "evaluate_every": 2, "test": Models.DOWNLOADED,
        "precision": Precision.fp32, "device": Device.cpu,
    }  # fmt: skip
    return Training(**(settings | changes))


def problem(make=fedavg, sizes=SIZES, normalized=False, external=0, **changes):
    model = network(normalized)
    clients = tuple(images(size, seed=1 + i) for i, size in enumerate(sizes))
    pooled = images(12, seed=100)
    own = [torch.arange(i, 12, len(sizes)) for i in range(len(sizes))]
    validation = tuple(images(2, seed=200 + i) for i in range(len(sizes)))
    held_out = images(external, seed=300) if external else None
    tests = TestData(validation, pooled, own, held_out)
    device = torch.device("cpu")
    known = make(model), training(**changes), model, sizes
    return LocalProblem(*known, dict(enumerate(clients)), tests, device)


def place(federation, client, number) -> ClientRound:
    """One client in a round."""
    return places(federation, [client], number)[0]


def play(of, processes=1, rounds=None):
    """The federation after all rounds, and the summaries of the rounds."""
    federation, told = begin(of), []
    with workers(of, processes) as run:
        for _ in range(of.training.rounds if rounds is None else rounds):
            federation, summary = play_round(of, federation, run)
            told.append(summary)
    return federation, told


def equal(left, right):
    """Whether two mappings hold the same tensors, to the last bit."""
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


def same(left, right):
    """Whether two federations are the same, to the last bit."""
    return (
        left.round == right.round
        and equal(left.shared, right.shared)
        and len(left.members) == len(right.members)
        and all(
            a.last == b.last and equal(a.private, b.private) and equal(a.memory, b.memory)
            for a, b in zip(left.members, right.members, strict=True)
        )
    )
