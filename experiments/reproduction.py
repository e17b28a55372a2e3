"""The runs behind docs/reproduction.md: methods, settings, ablation, partitions, by many seeds.

    python -m experiments.reproduction RESULTS.csv [STUDY...] [--seeds 0 1 2] [--processes 2]
    python -m experiments.reproduction RESULTS.csv [STUDY...] --table

Works on the images and clients that `dvc repro partition` has left in `data/`, made with the values
that docs/reproduction.md states: ten clients, or a hundred for the study `long`, and
`partition.seed` 0, or 1 and 2 for `partitions`; settings for other ones are passed over. Each run
is the stage `train` as a process of its own on one core, with what `params.yaml` says and the study
changes; it adds a line to RESULTS.csv. A run whose line is there is not repeated and one that was
stopped goes on, so any number of calls add up.
"""

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import Queue
from statistics import mean, stdev
from typing import Any

from ruamel.yaml import YAML

from experiments.ledger import add, lines
from experiments.studies import STUDIES, SWITCHES, Setting, ablated
from pfl.data.samples.clients import read_clients

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


def main() -> None:
    """Play what is missing, or print the table of what is there."""
    options = _options()
    settings = [one for study in options.studies or STUDIES for one in STUDIES[study]()]
    if options.table:
        _print(lines(options.results), settings)
        if "ablation" in (options.studies or STUDIES):
            _print_effects(lines(options.results))
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
    parser.add_argument("studies", nargs="*", type=_study, metavar="STUDY", help=", ".join(STUDIES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path(".scratch/reproduction"))
    parser.add_argument("--table", action="store_true", help="print results instead")
    return parser.parse_intermixed_args()


def _study(name: str) -> str:
    if name not in STUDIES:
        raise argparse.ArgumentTypeError(f"no study is called {name}: {', '.join(STUDIES)}.")
    return name


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
    tests = told[setting.method]
    return {
        "setting": setting.name, "method": setting.method, "seed": seed,
        "changed": json.dumps(changed, sort_keys=True), "local": tests["local-test"]["mean"],
        **{name: tests["new-test"][name] for name in ENSEMBLES},
        "validation": tests["validation"]["mean"] if tests["validation"] else "",
        "upload-bytes": tests["upload-bytes"],
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


def _print_effects(results: list[dict[str, str]]) -> None:
    """What each of LI, TA and CD adds: the four settings with it less the four without."""
    found = {(row["setting"], row["seed"]): float(row["local"]) for row in results}
    table = list(itertools.product((False, True), repeat=len(SWITCHES)))
    seeds = {seed for _, seed in found}
    whole = [seed for seed in seeds if all((ablated(kept), seed) in found for kept in table)]
    print("\n| part | local, with it less without |\n|---|---|")
    for number, part in enumerate(SWITCHES):
        effects = [
            mean(found[ablated(kept), seed] * (1 if kept[number] else -1) for kept in table) * 2
            for seed in whole
        ]
        print(f"| {part} | {_cell(effects)} |")


def _cell(values: list[float]) -> str:
    if not values:
        return ""
    spread = f" ± {100 * stdev(values):.2f}" if len(values) > 1 else ""
    return f"{100 * mean(values):.2f}{spread}"


if __name__ == "__main__":
    main()
