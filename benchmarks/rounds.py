"""Federated rounds against bare training and against loops as libraries write them, in one run.

    python -m benchmarks.rounds [--npz cifar10.npz] [--images 10000] [--clients 10]

All train LeNet-5 on the same images by the same SGD, in this process, on one thread. "Bare" is a
loop over the same tensors without federation: no merging, no uploads, no averages, no loss terms.
"As libraries" reads each client's floats from a compressed file in every round (as PFLlib does) and
gives them, image by image, to a new DataLoader; its default tests give each client's training and
test images to the new shared model after each round, read anew. "Grouped" trains all clients at
once, each a group of every convolution. Candidates alternate; each ratio is the median over rounds.
Processor time is what counts, since other programs may use the machine.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from benchmarks.federation import Method, equal_clients, processor_seconds
from pfl.data.tensors.client_data import ClientData
from pfl.data.tensors.pixels import PixelView
from pfl.runtime.rng import stream
from pfl.runtime.values import Precision
from pfl.runtime.workers import workers
from pfl.training.algorithm import Algorithm
from pfl.training.evaluation import score_all, score_clients
from pfl.training.methods.ditto import ditto
from pfl.training.methods.fedavg import fedavg
from pfl.training.methods.fedrep import fedrep
from pfl.training.methods.local import local
from pfl.training.methods.registry import make_algorithm
from pfl.training.networks import build
from pfl.training.problem import LocalProblem
from pfl.training.rounds import begin
from pfl.training.settings import Training
from pfl.training.sgd import sgd

CLASSES, SIDE = 10, 32
CD2 = {
    "ratio": 0.5, "cross": "both-shared", "increase": True, "average": True,
    "average-weight": 0.5, "average-ramp": 0.1, "average-every": "epoch", "distill": True,
    "distill-weight": 1.0, "detach": False,
}  # fmt: skip
TRAINING = Training.of("rounds", 0, {
    "rounds": 50, "epochs": 1, "batch-size": 128, "learning-rate": 0.01,
    "learning-rate-decay": 1.0, "momentum": 0.9,
    "nesterov": True, "weight-decay": 5e-4, "fraction": 1.0, "client-dropout": 0.0,
    "validation-fraction": 0.0, "evaluate-every": 50, "test": "downloaded", "precision": "fp32",
    "device": "cpu",
})  # fmt: skip


def main() -> None:
    """Print the table."""
    options = _options()
    torch.set_num_threads(1)
    problem = _problem(options)
    with tempfile.TemporaryDirectory() as folder, workers(problem, 1):
        _store(problem, Path(folder))
        candidates = _candidates(problem, Path(folder))
        costs: dict[str, list[float]] = {name: [] for name in candidates}
        for _ in range(options.rounds + 1):
            for name, run in candidates.items():
                costs[name].append(processor_seconds(run))
    _print({name: spent[1:] for name, spent in costs.items()}, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--npz", type=Path, help="images as x_train; generated ones without it")
    parser.add_argument("--images", type=int, default=10000)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


def _problem(options: argparse.Namespace) -> LocalProblem:
    """Clients of equal size, with a fifth as many test images as training images."""
    rng = np.random.default_rng(0)
    count = options.images + options.images // 5
    if options.npz:
        pixels = np.load(options.npz, allow_pickle=False)["x_train"][:count]
    else:
        pixels = rng.integers(0, 256, (count, SIDE, SIDE, 3), dtype=np.uint8)
    label = torch.from_numpy(rng.integers(0, CLASSES, count))
    half = torch.full((3,), 0.5)
    everything = ClientData(torch.from_numpy(pixels), label, PixelView(half, half / 2, False))
    clients, tests = equal_clients(everything, options.images, options.clients)
    model = build("lenet5", 3, SIDE, CLASSES, stream(0, "network"))
    algorithm = fedavg(model)
    sizes = [len(data) for data in clients]
    device = torch.device("cpu")
    return LocalProblem(algorithm, TRAINING, model, sizes, dict(enumerate(clients)), tests, device)


def _candidates(problem: LocalProblem, folder: Path) -> dict[str, Callable[[], object]]:
    def method(
        make: Callable[[nn.Module], Algorithm], precision: Precision = Precision.fp32
    ) -> Method:
        training = replace(problem.training, precision=precision)
        of = replace(problem, algorithm=make(problem.model), training=training)
        return Method(of, begin(of))

    single = method(local)
    single()
    return {
        "bare training": partial(_bare, problem),
        "FedAvg": method(fedavg),
        "FedAvg, bf16": method(fedavg, Precision.bf16),
        "Local": method(local),
        "FedRep": method(partial(fedrep, private_layers=1, head_epochs=1)),
        "Ditto": method(partial(ditto, attraction=0.1)),
        "CD2-pFed": method(lambda model: make_algorithm("cd2-pfed", model, CD2, "CD2")),
        "tests of clients": partial(score_clients, single.problem, single.federation, single.run),
        "all tests": partial(score_all, single.problem, single.federation, single.run),
        "grouped": partial(_grouped, problem),
        "as libraries": partial(_as_libraries, problem, folder, False),
        "as libraries, default tests": partial(_as_libraries, problem, folder, True),
    }


def _bare(problem: LocalProblem) -> None:
    """Train a network on each client's tensors, and nothing else."""
    for number, data in problem.clients.items():
        model = deepcopy(problem.model).to(memory_format=torch.channels_last)
        optimizer = sgd(model.parameters(), problem.context(number, 1, {}, stream(0, "b", number)))
        model.train()
        for images, label in data.batches(problem.training.batch_size, stream(0, "b", number)):
            loss = F.cross_entropy(model(images), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def _store(problem: LocalProblem, folder: Path) -> None:
    """Each client's images as PFLlib stores them: floats, channels first, compressed."""
    for client, data in problem.clients.items():
        test = problem.tests.pooled.take(problem.tests.own[client])
        for name, part in (("train", data), ("test", test)):
            pixels = part.view(part.stored).contiguous().numpy()
            np.savez_compressed(folder / f"{name}-{client}.npz", x=pixels, y=part.label.numpy())


def _read(folder: Path, name: str, client: int, batch_size: int) -> DataLoader[object]:
    with np.load(folder / f"{name}-{client}.npz", allow_pickle=False) as file:
        pixels, label = torch.from_numpy(file["x"]), torch.from_numpy(file["y"])
    pairs = list(zip(pixels, label, strict=True))
    return DataLoader(pairs, batch_size, shuffle=True)  # type: ignore[arg-type]


def _as_libraries(problem: LocalProblem, folder: Path, tests: bool) -> None:
    """A FedAvg round: read, collate, train, average."""
    size, models = problem.training.batch_size, []
    for client in range(len(problem.clients)):
        model = deepcopy(problem.model)
        optimizer = torch.optim.SGD(
            model.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=5e-4
        )
        for images, label in _read(folder, "train", client, size):
            loss = F.cross_entropy(model(images), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        models.append(model)
    server = deepcopy(problem.model)
    for parameter, *others in zip(server.parameters(), *(m.parameters() for m in models)):  # noqa: B905
        parameter.data = sum(other.data / len(models) for other in others)
    for client in range(len(problem.clients)) if tests else ():
        for name in ("train", "test"):
            with torch.no_grad():
                for images, label in _read(folder, name, client, size):
                    (server(images).argmax(1) == label).sum().item()


def _grouped(problem: LocalProblem) -> None:
    """A round for all clients at once: their networks are groups of one network."""
    count, context = len(problem.clients), problem.context(0, 1, {}, stream(0, "b"))
    weights = [
        nn.Parameter(torch.stack([parameter.detach()] * count))
        for parameter in problem.model.parameters()
    ]
    optimizer = sgd(weights, context)
    streams = [
        data.batches(context.training.batch_size, stream(0, "b", number))
        for number, data in problem.clients.items()
    ]
    for batches in zip(*streams, strict=True):
        images = torch.cat([images for images, _ in batches], 1)
        images = images.contiguous(memory_format=torch.channels_last)
        logits = _grouped_lenet(images, weights)
        label = torch.stack([label for _, label in batches])
        # The sum over clients of each one's mean: clients' gradients stay apart.
        loss = F.cross_entropy(logits.flatten(0, 1), label.flatten()) * count
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _grouped_lenet(images: Tensor, weights: list[nn.Parameter]) -> Tensor:
    """LeNet-5 of K clients: (b, K·c, h, w) -> (K, b, classes)."""
    values, count = images, len(weights[0])
    for weight, bias in (weights[0:2], weights[2:4]):
        values = F.conv2d(values, weight.flatten(0, 1), bias.flatten(), groups=count)
        values = F.max_pool2d(F.relu(values), 2)
    rows = values.unflatten(1, (count, -1)).flatten(2).transpose(0, 1)
    for layer in (4, 6, 8):
        weight, bias = weights[layer : layer + 2]
        rows = torch.baddbmm(bias[:, None], rows, weight.transpose(1, 2))
        rows = F.relu(rows) if layer < 8 else rows
    return rows


def _print(costs: dict[str, list[float]], options: argparse.Namespace) -> None:
    print(
        f"LeNet-5, batches of {TRAINING.batch_size}, {options.images} training images, "
        f"{options.clients} clients, {options.rounds} rounds, one thread"
    )
    print(f"{'':30}{'processor s':>12}{'images/s':>10}{'of bare':>9}{'of libraries':>14}")
    for name, spent in costs.items():
        middle = statistics.median(spent)
        ratios = [
            statistics.median(a / b for a, b in zip(spent, costs[other], strict=True))
            for other in ("bare training", "as libraries")
        ]
        rate = options.images / middle
        print(f"{name:30}{middle:12.2f}{rate:10.0f}{ratios[0]:9.2f}{ratios[1]:14.2f}")


if __name__ == "__main__":
    main()
