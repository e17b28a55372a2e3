"""The runs behind docs/reproduction.md: methods, settings, ablation, partitions, by many seeds.

    python -m benchmarks.reproduction RESULTS.csv [STUDY...] [--seeds 0 1 2] [--processes 2]
    python -m benchmarks.reproduction RESULTS.csv [STUDY...] --table

Works on the images and clients that `dvc repro partition` has left in `data/`, made with the values
that docs/reproduction.md states: ten clients, or a hundred for the study `long`, and
`partition.seed` 0, or 1 and 2 for `partitions`; settings for other ones are passed over. Each run
is the stage `train` as a process of its own on one core, with what `params.yaml` says and the study
changes; it adds a line to RESULTS.csv. A run whose line is there is not repeated and one that was
stopped goes on, so any number of calls add up.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from statistics import mean, stdev
from typing import Any

from ruamel.yaml import YAML

from benchmarks.ledger import add, lines
from pfl.clients import read_clients

PROTOCOL = {
    "augment": True, "rounds": 50, "epochs": 1, "batch-size": 128, "learning-rate": 0.01,
    "evaluate-every": 10,
}  # fmt: skip
ENSEMBLES = ("mean-probability", "mean-log-probability", "vote", "weight-average")
COLUMNS = (
    "setting",
    "method",
    "seed",
    "changed",
    "local",
    *ENSEMBLES,
    "validation",
    "upload-bytes",
)
CD2 = "cd2-pfed"
TRIED: list[tuple[str, str, dict[str, object]]] = [  # of CD2-pFed, with their schedules
    ("0.01", "cross-output", {"cross": "output"}),  # what the paper leaves open
    ("0.01", "cross-none", {"cross": "none"}),
    ("0.01", "average-every-step", {"average-every": "step"}),
    ("0.01", "detach", {"detach": True}),
    ("0.01", "distill-0.1", {"distill-weight": 0.1}),
    ("0.01", "no-average", {"average": False}),
    ("0.01", "ratio-0.9", {"ratio": 0.9}),
    ("0.03", "ratio-0.25", {"ratio": 0.25}),
    ("0.03", "ratio-0.9", {"ratio": 0.9}),
    ("0.01", "at-once", {"increase": False}),
    ("0.01", "at-once-cross-output", {"increase": False, "cross": "output"}),
    ("0.01", "at-once-ratio-0.25", {"increase": False, "ratio": 0.25}),
    ("0.01", "at-once-ratio-0.75", {"increase": False, "ratio": 0.75}),
    ("0.01", "at-once-ratio-0.9", {"increase": False, "ratio": 0.9}),
    (
        "0.01",
        "at-once-ratio-0.9-plain",
        {"ratio": 0.9, "increase": False, "average": False, "distill": False},
    ),
    ("0.01-decay", "at-once", {"increase": False}),
    ("0.02-decay", "at-once", {"increase": False}),
    ("0.01-decay", "at-once-cross-output", {"increase": False, "cross": "output"}),
]


@dataclass(frozen=True)
class Setting:
    """One method with what differs from the protocol and from params.yaml.

    Attributes:
        name: of the folder and of the row.
        method: one of those of `train`.
        own: its own settings that differ.
        rounds: settings of `rounds` that differ.
        clients: K that it is meant for.
        partition: seed of the partition that it is meant for.
    """

    name: str
    method: str
    own: Mapping[str, object] = field(default_factory=dict)
    rounds: Mapping[str, object] = field(default_factory=dict)
    clients: int = 10
    partition: int = 0


def _methods() -> Iterator[Setting]:
    for method in (CD2, "local", "fedavg", "fedper", "lg-fed"):
        yield Setting(method, method)


def _ablation() -> Iterator[Setting]:
    """LI, TA and CD, each on or off; all three on is the method itself."""
    switches = {"LI": "increase", "TA": "average", "CD": "distill"}
    for kept in ((), ("LI",), ("TA",), ("CD",), ("LI", "TA"), ("LI", "CD"), ("TA", "CD")):
        off = {switches[name]: False for name in switches if name not in kept}
        yield Setting(f"ablation/{'+'.join(kept) or 'none'}", CD2, off)


def _search() -> Iterator[Setting]:
    """Settings compared on a tenth of the training samples, which nothing trains on; 20 rounds."""
    for schedule in ("0.003", "0.01", "0.03", "0.01-decay", "0.03-decay", "0.05-decay"):
        yield _held_out("local", schedule)
        yield _held_out(CD2, schedule)
    for method in ("local", CD2):
        yield _held_out(method, "0.01", "no-augment", rounds={"augment": False})
    for schedule, name, own in TRIED:
        yield _held_out(CD2, schedule, name, own)
    yield _held_out("lg-fed", "0.01")
    yield _held_out("lg-fed", "0.01-decay")
    yield _held_out("lg-fed", "0.01", "bottom", {"shared-end": "bottom"})


def _held_out(
    method: str,
    schedule: str,
    name: str = "",
    own: dict[str, object] | None = None,
    rounds: dict[str, object] | None = None,
) -> Setting:
    """``schedule`` is the first learning rate, with "-decay" if it falls by 0.85 each round."""
    rate, _, falls = schedule.partition("-")
    values: dict[str, object] = {"validation-fraction": 0.1, "rounds": 20}
    values |= {"learning-rate": float(rate)} | (rounds or {})
    if falls:
        values["learning-rate-decay"] = 0.85
    label = "-".join(part for part in (method, rate, name, falls) if part)
    return Setting(f"search/{label}", method, own or {}, values)


def _chosen() -> Iterator[Setting]:
    """What the search found best on held out samples, over all rounds."""
    yield Setting(f"chosen/{CD2}", CD2, {"increase": False, "cross": "output"})
    yield Setting("chosen/local", "local", {}, {"learning-rate-decay": 0.94})


def _partitions() -> Iterator[Setting]:
    """Other classes for the same clients, by `partition.seed`."""
    for partition in (1, 2):
        for method in (CD2, "local"):
            yield Setting(f"partition-{partition}/{method}", method, partition=partition)


def _long() -> Iterator[Setting]:
    """LG-FedAvg's protocol, but 500 of its 2,000 rounds, and the last one instead of the best."""
    values: dict[str, object] = {
        "rounds": 500, "fraction": 0.1, "batch-size": 50, "learning-rate": 0.1, "momentum": 0.5,
        "nesterov": False, "weight-decay": 0.0, "evaluate-every": 500,
    }  # fmt: skip
    for method in (CD2, "local", "fedavg", "fedper"):
        yield Setting(f"long/{method}", method, {}, values, clients=100)
    bottom = {"shared-end": "bottom"}
    yield Setting("long/lg-fed", "lg-fed", {}, values, clients=100)
    yield Setting("long/lg-fed-bottom", "lg-fed", bottom, values, clients=100)


STUDIES = {
    "methods": _methods, "search": _search, "chosen": _chosen, "ablation": _ablation,
    "partitions": _partitions, "long": _long,
}  # fmt: skip


def main() -> None:
    """Play what is missing, or print the table of what is there."""
    options = _options()
    settings = [one for study in options.studies or STUDIES for one in STUDIES[study]()]
    if options.table:
        _print(lines(options.results), settings)
        return
    clients = read_clients(Path("data/clients.h5")).train.clients
    partition = _stated()["partition"]["seed"]
    settings = [one for one in settings if (one.clients, one.partition) == (clients, partition)]
    done = {(row["setting"], int(row["seed"])) for row in lines(options.results)}
    missing = [
        (setting, seed)
        for seed in options.seeds
        for setting in settings
        if (setting.name, seed) not in done
    ]
    sys.exit(_play_all(missing, options))


def _play_all(jobs: list[tuple[Setting, int]], options: argparse.Namespace) -> int:
    """A line for each run as it ends; 1 if one of them failed, which stops no other."""
    free: Queue[int] = Queue()
    for core in sorted(os.sched_getaffinity(0))[: options.processes]:
        free.put(core)
    with ThreadPoolExecutor(options.processes) as pool:
        try:
            runs = {pool.submit(_play, options.work, *job, free): job for job in jobs}
            for number, run in enumerate(as_completed(runs), 1):
                setting, seed = runs[run]
                told = run.exception()
                if not told:
                    add(options.results, COLUMNS, run.result())
                    shutil.rmtree(_folder(options.work, setting.name, seed))
                print(
                    f"{number}/{len(jobs)} {setting.name} seed {seed} {told or ''}".rstrip(),
                    flush=True,
                )
        finally:
            pool.shutdown(cancel_futures=True)
    return int(any(run.exception() for run in runs))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path, metavar="RESULTS.csv")
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=", ".join(STUDIES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path(".scratch/reproduction"))
    parser.add_argument("--table", action="store_true", help="print results instead")
    options = parser.parse_intermixed_args()
    if unknown := set(options.studies) - set(STUDIES):
        parser.error(f"no study is called {', '.join(sorted(unknown))}: {', '.join(STUDIES)} are.")
    return options


def _play(work: Path, setting: Setting, seed: int, free: "Queue[int]") -> dict[str, object]:
    """One run, on a core that no other run has."""
    folder = _folder(work, setting.name, seed)
    folder.mkdir(parents=True, exist_ok=True)
    core = free.get()
    try:
        with (folder / "log.txt").open("w") as log:
            ended = subprocess.run(
                ["taskset", "--cpu-list", str(core), "nice", *_command(setting, seed, folder)],
                check=False, stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"},
            )  # fmt: skip
    finally:
        free.put(core)
    if ended.returncode:
        last = (folder / "log.txt").read_text().strip().splitlines()[-1:]
        raise RuntimeError(f"failed: {''.join(last)}")
    return _row(setting, seed, json.loads((folder / "metrics.json").read_text()))


def _folder(work: Path, name: str, seed: int) -> Path:
    return work / name / f"seed-{seed}"


def _command(setting: Setting, seed: int, folder: Path) -> list[str]:
    stated = _stated()
    settings = folder / "settings.yaml"
    with settings.open("w") as file:
        YAML(typ="safe", pure=True).dump(
            {"own": stated["train"][setting.method] | dict(setting.own)}, file
        )
    values = stated["rounds"] | PROTOCOL | dict(setting.rounds)
    return [
        sys.executable, "-m", "stages.train", *(_flag(*item) for item in values.items()),
        f"--method={setting.method}", f"--seed={seed}", f"--settings={settings}:own",
        "--images=data/images.h5", "--index=data/index.h5", "--clients-file=data/clients.h5",
        f"--report={folder}", f"--out={folder / 'models.safetensors'}",
        f"--scratch={folder / 'scratch'}",
    ]  # fmt: skip


def _stated() -> dict[str, Any]:
    return YAML(typ="safe", pure=True).load(Path("params.yaml"))


def _flag(name: str, value: object) -> str:
    if isinstance(value, bool):
        return f"--{'' if value else 'no-'}{name}"
    return f"--{name}={value}"


def _row(setting: Setting, seed: int, told: dict[str, Any]) -> dict[str, object]:
    """What one run leaves in the file; accuracies as shares, after the last round."""
    changed = {"own": dict(setting.own), "rounds": dict(setting.rounds)}
    return {
        "setting": setting.name, "method": setting.method, "seed": seed,
        "changed": json.dumps(changed, sort_keys=True), "local": told["local-test"]["mean"],
        **{name: told["new-test"][name] for name in ENSEMBLES},
        "validation": told["validation"]["mean"] if told["validation"] else "",
        "upload-bytes": told["upload-bytes"],
    }  # fmt: skip


def _print(results: list[dict[str, str]], settings: list[Setting]) -> None:
    """A row of Markdown for each setting: mean ± sample standard deviation over seeds, per cent."""
    shown = ("local", *ENSEMBLES, "validation")
    print(f"| setting | seeds | {' | '.join(shown)} |")
    print(f"|{'---|' * (len(shown) + 2)}")
    for setting in settings:
        found = [row for row in results if row["setting"] == setting.name]
        cells = [_cell([float(row[name]) for row in found if row[name]]) for name in shown]
        if found:
            print(f"| {setting.name} | {len(found)} | {' | '.join(cells)} |")


def _cell(values: list[float]) -> str:
    if not values:
        return ""
    spread = f" ± {100 * stdev(values):.2f}" if len(values) > 1 else ""
    return f"{100 * mean(values):.2f}{spread}"


if __name__ == "__main__":
    main()
