"""Settings of the gradient heads by validation: part of every client's training samples, no test.

    python -m experiments.tune_heads DATA [--heads fedavg ditto …] [--rounds 20]

For each head, the learning rate first, then the method's own settings one after another, each takes
the value with the best mean validation accuracy over clients, the others staying as they are. The
learning rate climbs in steps of about 3 until both neighbors are worse. At most BUDGET trainings a
head, seed 0. A quarter of each client's training samples is put aside. DATA is a folder with
features.h5, index.h5 and clients.h5. Trainings are remembered in --memory, by their settings.
Prints entries for `heads` in params.yaml.
"""

import argparse
import json
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.data import read_samples
from pfl.data.features.features import open_features
from pfl.data.tensors.features import feature_view, load_features
from pfl.data.tensors.federated_data import FederatedData, Holdout, federate
from pfl.runtime.workers import workers
from pfl.training.evaluation import score_clients
from pfl.training.methods.heads import head_problem, head_settings, head_training
from pfl.training.rounds import Federation, begin, play_round

BUDGET = 10
HELD_OUT = 0.25
RATES = [0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3]
FIRST_RATE = 0.03
HIDDEN = 64
Entry = dict[str, Any]
Played = dict[str, Federation]  # the outcome of the rounds, by what counts in them


def entry(method: str, hidden: int = 0, **settings: object) -> Entry:
    """Where the search for a head's settings begins."""
    named = {name.replace("_", "-"): value for name, value in settings.items()}
    return {"method": method, "hidden": hidden, "learning-rate": FIRST_RATE, "settings": named}


# Where to begin, and what to try for the method's own settings.
TUNING = {"learning-rate": [0.03, 0.003], "epochs": [1, 10]}
PULLS = [0.01, 1.0]
SEARCH: dict[str, tuple[Entry, dict[str, list[Any]]]] = {
    "fedavg": (entry("fedavg"), {}),
    "local": (entry("local"), {}),
    "fedavg-ft": (entry("fedavg-ft", epochs=5, learning_rate=0.01), TUNING),
    "fedprox": (entry("fedprox", mu=0.1), {"mu": PULLS}),
    "ditto": (entry("ditto", attraction=0.1), {"attraction": PULLS}),
    "apfl": (entry("apfl", alpha=0.5, adaptive=True), {"alpha": [0.25, 0.75]}),
    "pfedme": (
        entry("pfedme", attraction=1.0, inner_steps=3, learning_rate=0.5),
        {"attraction": [0.1], "learning-rate": [1.0]},
    ),
    "local-mlp": (entry("local", HIDDEN), {}),
    "fedavg-mlp": (entry("fedavg", HIDDEN), {}),
    "fedper": (entry("fedper", HIDDEN, private_layers=1), {}),
    "lg-fed": (entry("lg-fed", HIDDEN, shared_layers=1, shared_end="top"), {}),
    "fedrep": (
        entry("fedrep", HIDDEN, private_layers=1, head_epochs=1),
        {"head-epochs": [3]},
    ),
    "fedbabu": (entry("fedbabu", HIDDEN, head_layers=1, epochs=5, learning_rate=0.01), TUNING),
}


def main() -> None:
    """Search and print."""
    options = _options()
    torch.set_num_threads(1)
    data = _read(options.data)
    rounds = {
        "rounds": options.rounds, "epochs": 1, "batch-size": 128, "learning-rate-decay": 1.0,
        "momentum": 0.9, "nesterov": True, "weight-decay": 5e-4, "fraction": 1.0,
        "client-dropout": 0.0, "validation-fraction": HELD_OUT, "evaluate-every": options.rounds,
        "device": "cpu",
    }  # fmt: skip
    known = json.loads(options.memory.read_text()) if options.memory.exists() else {}

    played: Played = {}

    def measured(name: str, values: Entry) -> float:
        key = json.dumps([str(options.data), options.rounds, values])
        if key not in known:
            before = time.process_time()
            known[key] = _validation(name, values, rounds, data, played)
            print(f"# {name} {values} {known[key]:.4f} {time.process_time() - before:.0f} s")
            options.memory.write_text(json.dumps(known))
        return float(known[key])

    for name in options.heads:
        values, count = _search(*SEARCH[name], lambda values, name=name: measured(name, values))
        print(f"  {name}: {json.dumps(values)} # {measured(name, values):.4f}, {count} trainings")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--heads", nargs="+", default=list(SEARCH), choices=list(SEARCH))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--memory", type=Path, default=Path(".scratch/tune-heads.json"))
    return parser.parse_args()


def _read(folder: Path) -> FederatedData:
    """Training samples without the part put aside; of the test samples, nobody's own."""
    index, held = read_samples(folder)
    with open_features(folder / "features.h5") as features:
        stored = load_features(features)
    data = federate(index, held, stored, Holdout(HELD_OUT, 0), feature_view)
    nothing = [torch.zeros(0, dtype=torch.int64)] * held.test.clients
    return replace(data, tests=replace(data.tests, own=nothing))


def _search(
    start: Entry, own: dict[str, list[Any]], measure: Callable[[Entry], float]
) -> tuple[Entry, int]:
    """The best settings found, and how many trainings that took; a tie changes nothing."""
    best, values = deepcopy(start), {json.dumps(start): measure(start)}

    def better(candidate: Entry) -> bool:
        nonlocal best
        key = json.dumps(candidate)
        if key not in values and len(values) == BUDGET:
            return False
        values.setdefault(key, measure(candidate))
        found = values[key] > values[json.dumps(best)]
        best = candidate if found else best
        return found

    for step in (-1, 1):
        place = RATES.index(best["learning-rate"]) + step
        while 0 <= place < len(RATES) and better(best | {"learning-rate": RATES[place]}):
            place += step
    for name, choices in own.items():
        for choice in choices:
            better(best | {"settings": best["settings"] | {name: choice}})
    return best, len(values)


def _validation(
    name: str, values: Entry, rounds: Entry, data: FederatedData, played: Played
) -> float:
    """Mean over clients of the accuracy on what was put aside, after the last round."""
    head = head_settings(name, values)
    problem = head_problem(head, head_training(head, 0, rounds), data)
    key = json.dumps(_in_rounds(values))
    with workers(problem, 1) as run:
        federation = played.get(key) or begin(problem)
        for _ in range(federation.round, rounds["rounds"]):
            federation, _ = play_round(problem, federation, run)
        played[key] = federation
        return float(np.nanmean(score_clients(problem, federation, run).validation.clients))


def _in_rounds(values: Entry) -> Entry:
    """What counts in the rounds: of fine-tuning before use, nothing does."""
    if values["method"] == "fedavg-ft":
        return values | {"method": "fedavg", "settings": {}}
    if values["method"] == "fedbabu":
        return values | {"settings": {"head-layers": values["settings"]["head-layers"]}}
    return values


if __name__ == "__main__":
    main()
