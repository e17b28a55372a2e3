"""The runs behind docs/results.md: every method on every data set, through the pipeline itself.

    python -m experiments.results RESULTS.csv [SETTING...] [--partitions 0 1 2]
        [--tuned TUNED.json] [--methods cd2-pfed fedavg local] [--path cifar10=FOLDER ...]
    python -m experiments.results RESULTS.csv --table

With --tuned, heads have the settings that `experiments.tune_heads --out` found for the column.
Run it in a clone of its own: for each setting and each seed of the partition it writes
`params.yaml`, runs the stages that test something, and adds a line for each method to RESULTS.csv:
means as `compare` has them, and of how many of its test samples each client's model is right. What
has lines there is not repeated. DVC's cache serves what runs have in common: the features of one
data set are extracted once.
"""

import argparse
import json
import resource
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from experiments.ledger import add, lines
from experiments.results_table import tables
from pfl.artifacts.csv import DIGITS
from pfl.evaluation.metrics import HEAD_PREFIX
from pfl.report.comparison import gather, run_folders

HEADS = [
    "fedavg", "fedprox", "local", "fedavg-ft", "ditto", "apfl", "pfedme", "local-mlp", "lg-fed",
    "fedper", "fedrep", "fedbabu", "fedavg-prior", "fedavg-prior-mlp", "fedrod", "fedrod-mlp",
]  # fmt: skip
METHODS = ["cd2-pfed", "fedavg", "local"]
ROUNDS = {
    "network": "lenet5", "image-size": 32, "augment": False, "rounds": 20, "epochs": 1,
    "batch-size": 32, "learning-rate": 0.02, "evaluate-every": 20,
}  # fmt: skip
NATURAL: dict[str, object] = {"scheme": "natural", "clients": 4}
LOCAL, WORST, GLOBAL = "local-test", "local-test:worst-decile", "global-test"
NLL = "local-test:nll"
REPORTS = Path("reports")
COLUMNS = (
    "setting", "partition", "method", LOCAL, WORST, GLOBAL, NLL, "right", "tested", "seconds",
)  # fmt: skip


def _dirichlet(clients: int) -> dict[str, object]:
    return {"scheme": "dirichlet", "clients": clients, "concentration": 0.1}


@dataclass(frozen=True)
class Setting:
    """What differs from params.yaml as it stands.

    Attributes:
        dataset: of `prepare`.
        partition: values of that section.
        source: the name that --path knows the data by; none where the package has the data.
        cut: whether the data have no test split, so that a repeat cuts one anew.
    """

    dataset: str
    partition: Mapping[str, object]
    source: str = ""
    cut: bool = False


SETTINGS = {
    "digits-0.1": Setting("digits", _dirichlet(10), cut=True),
    "office-0.1": Setting("folder", _dirichlet(20), source="office", cut=True),
    "office-domains": Setting("folder", NATURAL, source="office", cut=True),
    "histology-0.1": Setting("folder", _dirichlet(20), source="histology"),
    "fashion-mnist-0.1": Setting("fashion-mnist", _dirichlet(100), source="fashion-mnist"),
    "cifar10-0.1": Setting("cifar10", _dirichlet(100), source="cifar10"),
    "cifar10-2": Setting(
        "cifar10",
        {"scheme": "pathological", "clients": 100, "classes-per-client": 2},
        source="cifar10",
    ),
}


def main() -> None:
    """Play the runs that have no lines yet, or print the table of what is there."""
    options = _options()
    rows = lines(options.results)
    if options.table:
        print(tables(rows, list(SETTINGS), (GLOBAL,)))
        return
    done = {(row["setting"], row["partition"]) for row in rows}
    tuned = json.loads(options.tuned.read_text()) if options.tuned else {}
    for name, partition in product(options.settings or SETTINGS, options.partitions):
        if (name, str(partition)) not in done:
            values = _values(SETTINGS[name], partition, dict(options.path), options.methods)
            _play(name, values | {"heads": tuned.get(name, {})}, options.results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path, metavar="RESULTS.csv")
    parser.add_argument(
        "settings", nargs="*", type=_setting, metavar="SETTING", help=", ".join(SETTINGS)
    )
    parser.add_argument("--path", action="append", default=[], type=_named, metavar="DATA=PATH")
    parser.add_argument("--partitions", type=int, nargs="+", default=[0], metavar="SEED")
    parser.add_argument("--methods", nargs="*", default=METHODS, help="networks; none: heads")
    parser.add_argument("--tuned", type=Path, metavar="TUNED.json")
    parser.add_argument("--table", action="store_true", help="print results instead")
    return parser.parse_intermixed_args()


def _setting(name: str) -> str:
    if name not in SETTINGS:
        raise argparse.ArgumentTypeError(f"no setting is called {name}: {', '.join(SETTINGS)}.")
    return name


def _named(text: str) -> tuple[str, str]:
    name, _, path = text.partition("=")
    return name, path


def _values(
    setting: Setting, partition: int, paths: Mapping[str, str], methods: list[str]
) -> dict[str, Mapping[str, object]]:
    """What differs from params.yaml, by section."""
    path = paths.get(setting.source, "data/raw")
    prepare: dict[str, object] = {"dataset": _reader(setting.dataset, path), "path": path}
    return {
        "prepare": prepare | ({"seed": partition} if setting.cut else {}),
        "partition": {**setting.partition, "seed": partition},
        "compare": {"methods": methods, "heads": HEADS},
        "rounds": ROUNDS,
    }


def _play(name: str, values: Mapping[str, Mapping[str, Any]], results: Path) -> None:
    """Write the parameters, run the pipeline, add what it found to the results."""
    _set(Path("params.yaml"), values)
    methods = values["compare"]["methods"]
    start = _seconds()
    stages = ["evaluate", "heads", *(["train"] if methods else [])]
    subprocess.run(["dvc", "repro", *stages], check=True)
    spent = _seconds() - start
    folders = run_folders(REPORTS / "train", methods, [0])
    folders |= run_folders(REPORTS / "heads", HEADS, [0], HEAD_PREFIX)
    run = {"setting": name, "partition": values["partition"]["seed"], "seconds": round(spent)}
    for of in gather(folders, REPORTS / "fedhip"):
        means = {key: round(entry.mean, DIGITS) for key, entry in of.entries.items()}
        add(results, COLUMNS, run | means | {"method": of.method} | _clients(of.method))
    print(f"{time.strftime('%H:%M')} {run}", flush=True)


def _clients(method: str) -> dict[str, str]:
    """Of how many of its test samples each client's model is right, one after another."""
    kind, _, name = method.rpartition(":")
    folder = {
        "": Path("train", name, "seed-0"), "heads": Path("heads", name, "seed-0"),
        "fedhip": Path("fedhip"),
    }[kind]  # fmt: skip
    rows = lines(REPORTS / folder / "per_client.csv")
    column = f"{LOCAL}:{name}" if kind == "fedhip" else LOCAL
    tested = [int(row["test"]) for row in rows]
    right = [round(float(row[column] or 0) * of) for row, of in zip(rows, tested, strict=True)]
    return {"right": " ".join(map(str, right)), "tested": " ".join(map(str, tested))}


def _reader(dataset: str, path: str) -> str:
    """A file of arrays is read as such, whatever the data are."""
    return "npz" if path.endswith(".npz") else dataset


def _set(path: Path, values: Mapping[str, Mapping[str, object]]) -> None:
    parser = YAML()
    stated: dict[str, dict[str, Any]] = parser.load(path)
    for section, changes in values.items():
        stated[section].update(changes)
    parser.dump(stated, path)


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
