"""The runs behind docs/results.md: every method on every data set, through the pipeline itself.

    python -m experiments.results RESULTS.csv [SETTING...] [--path cifar10=FOLDER ...]
    python -m experiments.results RESULTS.csv --tuned TUNED.json [SETTING...]
    python -m experiments.results RESULTS.csv --table

With --tuned, heads have the settings that `experiments.tune_heads --out` found for the column.
Run it in a clone of its own: for each setting it writes `params.yaml`, runs `dvc repro compare` and
copies `reports/comparison/comparison.csv` into RESULTS.csv, a line for each method. Settings that
have lines there are not repeated. DVC's cache serves what settings have in common: the features of
one data set are extracted once.
"""

import argparse
import csv
import json
import resource
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from experiments.ledger import add, lines

HEADS = [
    "fedavg", "fedprox", "local", "fedavg-ft", "ditto", "apfl", "pfedme", "local-mlp", "lg-fed",
    "fedper", "fedrep", "fedbabu", "fedavg-prior", "fedavg-prior-mlp", "fedrod", "fedrod-mlp",
]  # fmt: skip
METHODS = ["cd2-pfed", "fedavg", "local"]
ROUNDS = {
    "network": "lenet5", "image-size": 32, "augment": False, "rounds": 20, "epochs": 1,
    "batch-size": 32, "learning-rate": 0.02, "evaluate-every": 20,
}  # fmt: skip
NATURAL = {"scheme": "natural"}
LOCAL, WORST, GLOBAL = "local-test", "local-test:worst-decile", "global-test"
COLUMNS = ("setting", "method", "seeds", LOCAL, f"{LOCAL}:std", WORST, GLOBAL, "setting-seconds")


def _dirichlet(clients: int) -> dict[str, object]:
    return {"scheme": "dirichlet", "clients": clients, "concentration": 0.1}


@dataclass(frozen=True)
class Setting:
    """What differs from params.yaml as it stands.

    Attributes:
        dataset: of `prepare`.
        partition: values of that section.
        prepare: values of that section besides.
        rounds: values of that section.
        source: the name that --path knows the data by; none where the package has the data.
    """

    dataset: str
    partition: Mapping[str, object]
    prepare: Mapping[str, object] = field(default_factory=dict)
    rounds: Mapping[str, object] = field(default_factory=dict)
    source: str = ""


SETTINGS = {
    "digits-0.1": Setting("digits", _dirichlet(10)),
    "office-0.1": Setting("folder", _dirichlet(20), source="office"),
    "office-domains": Setting("folder", NATURAL, source="office"),
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
    """Play the settings that have no lines yet, or print the table of what is there."""
    options = _options()
    rows = lines(options.results)
    if options.table:
        _print(rows)
        return
    done = {row["setting"] for row in rows}
    tuned = json.loads(options.tuned.read_text()) if options.tuned else {}
    for name in options.settings or SETTINGS:
        if name not in done:
            values = _values(SETTINGS[name], dict(options.path), options.seeds)
            _play(name, values | {"heads": tuned.get(name, {})}, options.results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path, metavar="RESULTS.csv")
    parser.add_argument("settings", nargs="*", metavar="SETTING", help=", ".join(SETTINGS))
    parser.add_argument("--path", action="append", default=[], type=_named, metavar="DATA=PATH")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--tuned", type=Path, metavar="TUNED.json")
    parser.add_argument("--table", action="store_true", help="print results instead")
    options = parser.parse_intermixed_args()
    if unknown := set(options.settings) - set(SETTINGS):
        parser.error(f"no setting is called {', '.join(sorted(unknown))}: {', '.join(SETTINGS)}.")
    return options


def _named(text: str) -> tuple[str, str]:
    name, _, path = text.partition("=")
    return name, path


def _values(
    setting: Setting, paths: Mapping[str, str], seeds: list[int]
) -> dict[str, Mapping[str, object]]:
    """What differs from params.yaml, by section."""
    path = paths.get(setting.source, "data/raw")
    return {
        "prepare": {"dataset": _reader(setting.dataset, path), "path": path} | setting.prepare,
        "partition": setting.partition,
        "compare": {"methods": METHODS, "heads": HEADS, "seeds": seeds},
        "rounds": ROUNDS | setting.rounds,
    }


def _play(name: str, values: Mapping[str, Mapping[str, object]], results: Path) -> None:
    """Write the parameters, run the pipeline, add its table to the results."""
    _set(Path("params.yaml"), values)
    start = _seconds()
    subprocess.run(["dvc", "repro", "compare"], check=True)
    spent = _seconds() - start
    with Path("reports/comparison/comparison.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            add(results, COLUMNS, {"setting": name, "setting-seconds": round(spent)} | row)
    print(f"{time.strftime('%H:%M')} {name}: {spent:.0f} s of processor time", flush=True)


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


def _print(rows: list[dict[str, str]]) -> None:
    """Markdown: for each measure a table with a line a method and a column a setting, per cent."""
    settings = [name for name in SETTINGS if any(row["setting"] == name for row in rows)]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    found = {(row["setting"], row["method"]): row for row in rows}
    for measure in (LOCAL, WORST, GLOBAL):
        print(f"\n{measure}\n\n| method | {' | '.join(settings)} |")
        print(f"|---|{'---:|' * len(settings)}")
        for method in methods:
            values = [found.get((setting, method), {}).get(measure) for setting in settings]
            cells = (f"{100 * float(value):.1f}" if value else "" for value in values)
            print(f"| `{method}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
