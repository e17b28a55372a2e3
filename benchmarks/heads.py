"""A federated round of a head by gradients on cached features, against bare training, in one run.

    python -m benchmarks.heads [--samples 50000 --features 1280 --clients 100]

"Bare" trains a linear head on each client's features, kept as float32 in memory, without
federation: no fixed point, no merging, no uploads, no averages, no loss terms. Candidates
alternate; numbers are medians over rounds, in processor time of one thread, since other programs
may use the machine. Clients run in parallel: with c free cores a round takes 1/c of it.
"""

import argparse
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.federation import Method, equal_clients, processor_seconds
from pfl.data.tensors.client_data import ClientData
from pfl.data.tensors.features import feature_view
from pfl.data.tensors.federated_data import FederatedData
from pfl.runtime.rng import stream
from pfl.runtime.workers import workers
from pfl.training.evaluation import score_clients
from pfl.training.head_settings import head_settings, head_training
from pfl.training.methods.heads import head_problem
from pfl.training.networks import build_head
from pfl.training.problem import LocalProblem
from pfl.training.rounds import begin
from pfl.training.sgd import sgd

CLASSES = 10
HEAD_ROUNDS = {
    "rounds": 50, "epochs": 1, "batch-size": 128, "learning-rate-decay": 1.0, "momentum": 0.9,
    "nesterov": True, "weight-decay": 5e-4, "fraction": 1.0, "client-dropout": 0.0,
    "validation-fraction": 0.0, "evaluate-every": 50, "test": "downloaded", "device": "cpu",
}  # fmt: skip
HEADS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "FedAvg, linear": ("fedavg", 0, {}),
    "Ditto, linear": ("ditto", 0, {"attraction": 0.1}),
    "APFL, linear": ("apfl", 0, {"alpha": 0.5, "adaptive": True}),
    "FedPer, 64 hidden units": ("fedper", 64, {"private-layers": 1}),
}


def main() -> None:
    """Print the table."""
    options = _options()
    torch.set_num_threads(1)
    data = _data(options)
    problems = {name: _problem(data, *head) for name, head in HEADS.items()}
    floats = [(client.view(client.stored), client.label) for client in data.clients.values()]
    candidates: dict[str, Callable[[], object]] = {
        "bare training, linear": partial(_bare, problems["FedAvg, linear"], floats)
    }
    with workers(None, 1):
        candidates |= {name: Method(of, begin(of)) for name, of in problems.items()}
        single = Method(problems["FedAvg, linear"], begin(problems["FedAvg, linear"]))
        candidates["tests of the clients"] = partial(
            score_clients, single.problem, single.federation, single.run
        )
        costs: dict[str, list[float]] = {name: [] for name in candidates}
        for _ in range(options.rounds + 1):
            for name, run in candidates.items():
                costs[name].append(processor_seconds(run))
    print(f"{options.samples} samples, {options.features} features, {options.clients} clients")
    bare = statistics.median(costs["bare training, linear"][1:])
    for name, spent in costs.items():
        middle = statistics.median(spent[1:])
        print(f"{name:30}{middle:8.2f} s{middle / bare:8.2f} of bare")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=50000)
    parser.add_argument("--features", type=int, default=1280)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def _data(options: argparse.Namespace) -> FederatedData:
    """Clients of equal size, with a fifth as many test samples."""
    rng = np.random.default_rng(0)
    count = options.samples + options.samples // 5
    rows = rng.integers(0, 20000, (count, options.features), dtype=np.int16)
    label = torch.from_numpy(rng.integers(0, CLASSES, count))
    stored = torch.from_numpy(rows)
    everything = ClientData(stored, label, feature_view([stored[:5000]]))
    clients, tests = equal_clients(everything, options.samples, options.clients)
    return FederatedData(dict(enumerate(clients)), tests, CLASSES)


def _problem(
    data: FederatedData, method: str, hidden: int, settings: dict[str, Any]
) -> LocalProblem:
    entry = {"method": method, "hidden": hidden, "learning-rate": 0.01, "settings": settings}
    head = head_settings(method, entry)
    return head_problem(head, head_training(head, 0, HEAD_ROUNDS), data)


def _bare(problem: LocalProblem, floats: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Train a linear head on each client's floats, and nothing else."""
    context = problem.context(0, 1, {}, stream(0, "b"))
    for number, (rows, label) in enumerate(floats):
        model = build_head(rows.shape[1], 0, CLASSES, stream(0, "network"))
        optimizer = sgd(model.parameters(), context)
        order = torch.randperm(len(rows), generator=stream(0, "b", number))
        for chosen in order.split(context.training.batch_size):
            loss = F.cross_entropy(model(rows[chosen]), label[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
