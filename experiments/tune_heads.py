"""Settings of the gradient heads by validation: part of every client's training samples, no test.

    python -m experiments.tune_heads DATA [--column office-0.1] [--heads fedavg …] [--out FILE]

DATA is a folder with features.h5, index.h5 and clients.h5; with --column, a column of
docs/results.md, clients are dealt anew as that column says, and DATA needs no clients.h5.
For each head the settings climb their ladders (:mod:`experiments.ladders`) by the mean validation
accuracy over clients, with at most --budget trainings, seed 0. A quarter of each client's training
samples is put aside. One core. A training that diverges, or that the method refuses, counts as 0.
Trainings are remembered in --memory by what they depend on: the content of the three files and all
settings. Prints entries for `heads` in params.yaml; --out has them as JSON, by column, which
`experiments.results --tuned` runs with.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from ruamel.yaml import YAML

from experiments.data import read_samples
from experiments.ladders import STARTS, Entry, Found, ladders_of, search
from experiments.results import SETTINGS
from pfl.artifacts.files import write_text
from pfl.artifacts.hashing import recorded_sha256
from pfl.data.features.features import open_features
from pfl.data.partition.partition import PartitionSettings, Scheme, partition_samples
from pfl.data.samples.clients import write_clients
from pfl.data.samples.index import read_index
from pfl.data.tensors.features import feature_view, load_features
from pfl.data.tensors.federated_data import FederatedData, Holdout, federate
from pfl.errors import InputError
from pfl.runtime.workers import workers
from pfl.training.evaluation import score_clients
from pfl.training.head_settings import head_settings, head_training
from pfl.training.methods.heads import head_problem
from pfl.training.rounds import Federation, begin, play_round

BUDGET = 24
HELD_OUT = 0.25
OWN_CLIENTS = "clients of DATA"
# At use alone their clients' models differ from FedAvg's, or from the body's: rounds played once.
AT_USE = {"fedavg": (), "fedavg-ft": (), "fedavg-prior": (), "fedbabu": ("head-layers",)}


def main() -> None:
    """Search and print."""
    options = _options()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        clients = _clients(options.data, options.column, Path(folder))
        trainings = Trainings(
            _read(options.data, clients), _rounds(options.rounds), options.memory,
            content(options.data, clients),
        )  # fmt: skip
    tuned: dict[str, Entry] = {}
    for name in options.heads:
        start = STARTS[name]
        found = search(start, ladders_of(start), trainings.measure, options.budget)
        tuned[name] = found.entry
        print(f"  {name}: {json.dumps(found.entry)} # {_told(found)}", flush=True)
        if options.out:
            _add(options.out, options.column or OWN_CLIENTS, tuned)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--column", choices=list(SETTINGS))
    parser.add_argument("--heads", nargs="+", default=list(STARTS), choices=list(STARTS))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--budget", type=int, default=BUDGET)
    parser.add_argument("--memory", type=Path, default=Path(".scratch/tune-heads.json"))
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def _rounds(count: int) -> Entry:
    """Section head-rounds, as params.yaml has it but for the length and what is put aside."""
    stated = YAML(typ="safe").load(Path("params.yaml"))["head-rounds"]
    own = {"rounds": count, "validation-fraction": HELD_OUT, "evaluate-every": count}
    return {**stated, **own, "device": "cpu"}


def _clients(data: Path, column: str | None, folder: Path) -> Path:
    """The file that says who holds what: of DATA, or dealt as the column has it."""
    if column is None:
        return data / "clients.h5"
    values = YAML(typ="safe").load(Path("params.yaml"))["partition"] | SETTINGS[column].partition
    seed = values.pop("seed")
    named = {name.replace("-", "_"): value for name, value in values.items()}
    settings = PartitionSettings(**{**named, "scheme": Scheme(named["scheme"])})
    index = read_index(data / "index.h5")
    dealt = partition_samples(index, settings, np.random.default_rng(seed))
    facts = settings.used() | {"seed": seed, "index-sha256": index.sha256}
    write_clients(folder / "clients.h5", dealt, facts)  # the pipeline's, to the byte
    return folder / "clients.h5"


def content(data: Path, clients: Path) -> dict[str, str]:
    """What trainings depend on besides settings, by the hashes that the files record."""
    paths = {"features": data / "features.h5", "index": data / "index.h5", "clients": clients}
    return {name: recorded_sha256(path, name) for name, path in paths.items()}


def _read(folder: Path, clients: Path) -> FederatedData:
    """Training samples without the part put aside; of the test samples, nobody's own."""
    index, held = read_samples(folder, clients)
    with open_features(folder / "features.h5") as features:
        stored = load_features(features)
    data = federate(index, held, stored, Holdout(HELD_OUT, 0), feature_view)
    nothing = [torch.zeros(0, dtype=torch.int64)] * held.test.clients
    return replace(data, tests=replace(data.tests, own=nothing))


@dataclass
class Trainings:
    """Validation accuracy of entries, remembered in a file.

    Attributes:
        data: who trains with what.
        rounds: section head-rounds.
        memory: the file, JSON; there may be none yet.
        content: what ``data`` are, for the memory.
        played: rounds by what counts in them, of methods that differ at use alone.
    """

    data: FederatedData
    rounds: Entry
    memory: Path
    content: Mapping[str, str]
    played: dict[str, Federation] = field(default_factory=dict)

    def key(self, values: Entry) -> str:
        """The name of a training in the memory: whatever its outcome depends on."""
        parts = {**self.content, "rounds": self.rounds, "head": values}
        return json.dumps(parts, sort_keys=True)

    def measure(self, values: Entry) -> float:
        """From the memory, or by training; 0 for what cannot be trained."""
        known = json.loads(self.memory.read_text()) if self.memory.exists() else {}
        key = self.key(values)
        if key not in known:
            before = time.process_time()
            try:
                known[key] = self._validation(values)
            except InputError as error:
                print(f"# {error}")
                known[key] = 0.0
            spent = time.process_time() - before
            print(f"# {json.dumps(values)} {known[key]:.4f} {spent:.0f} s", flush=True)
            write_text(self.memory, json.dumps(known, indent=0))
        return float(known[key])

    def _validation(self, values: Entry) -> float:
        """Mean over clients of the accuracy on what was put aside, after the last round."""
        head = head_settings("tuned", values)
        problem = head_problem(head, head_training(head, 0, self.rounds), self.data)
        key = json.dumps(in_rounds(values))
        with workers(problem, 1) as run:
            federation = self.played.get(key) or begin(problem)
            for _ in range(federation.round, self.rounds["rounds"]):
                federation, _ = play_round(problem, federation, run)
            if values["method"] in AT_USE:
                self.played[key] = federation
            validation = score_clients(problem, federation, run).validation
        return float(np.nanmean(validation.clients)) if validation is not None else 0.0


def in_rounds(values: Entry) -> Entry:
    """What counts in the rounds: of what is done before use, nothing does."""
    if values["method"] not in AT_USE:
        return values
    kept = {name: values["settings"][name] for name in AT_USE[values["method"]]}
    method = values["method"] if kept else "fedavg"
    return {**values, "method": method, "settings": kept}


def _told(found: Found) -> str:
    text = f"{found.score:.4f}, {found.trainings} trainings"
    text += f"; at an end: {', '.join(found.ends)}" if found.ends else ""
    return text + (f"; budget spent: {', '.join(found.unknown)}" if found.unknown else "")


def _add(path: Path, column: str, tuned: Mapping[str, Entry]) -> None:
    stated = json.loads(path.read_text()) if path.exists() else {}
    stated[column] = {**stated.get(column, {}), **tuned}
    write_text(path, json.dumps(stated, indent=1) + "\n")


if __name__ == "__main__":
    main()
