"""The runs behind docs/reproduction.md: methods, settings, readings, partitions, by many seeds.

    python -m experiments.reproduction RESULTS.csv [STUDY...] --path cifar10=PLACE [--seeds 0 1 2]
    python -m experiments.reproduction RESULTS.csv [STUDY...] --list
    python -m experiments.reproduction RESULTS.csv [STUDY...] --table

PLACE is where torchvision has CIFAR-10 or an array file as `prepare.dataset: npz` reads it. Other
studies ask for `cifar100=` (a folder of images) and `histology=`; settings whose data have no
--path are passed over. Images are read and clients made by the stages `prepare` and `partition`,
once for each that differs, with what `params.yaml` says and the study changes. Each run is the
stage `train` as a process of its own on one core (:mod:`experiments.cd2.play`); it adds a line,
with the version of the code, to RESULTS.csv as it ends. A run whose line is there is not repeated
and one that was stopped goes on, so any number of calls add up. Where settings of a group are
compared on held-out samples, the best is played with all samples once all of them have lines.
--list says what is left, with an estimate of its cost in minutes of one core.
"""

import argparse
import itertools
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, stdev

from ruamel.yaml import YAML

from experiments.cd2.cost import minutes
from experiments.cd2.runner import ENSEMBLES, Runner, known
from experiments.cd2.studies import CD2_STUDIES, confirmed
from experiments.ledger import lines
from experiments.studies import STUDIES, SWITCHES, Setting, ablated

ALL = STUDIES | CD2_STUDIES
PROTOCOL = {
    "augment": True, "rounds": 50, "epochs": 1, "batch-size": 128, "learning-rate": 0.01,
    "evaluate-every": 10,
}  # fmt: skip


def main() -> None:
    """Play what is missing, or print what is left, or the table of what is there."""
    options = _options()
    studies = options.studies or list(ALL)
    if options.table:
        rows = lines(options.results)
        _print(rows, [one for study in studies for one in settings_of(study, rows)])
        if "ablation" in studies:
            _print_effects(rows)
        return
    stated = YAML(typ="safe", pure=True).load(Path("params.yaml"))
    stated["rounds"] |= PROTOCOL
    runner = Runner(options.results, options.work, dict(options.path), options.processes, stated)
    if options.list:
        _list(runner, studies, options.seeds)
        return
    failed, tried = 0, set[tuple[str, int]]()
    while jobs := _left(runner, studies, options.seeds, tried):
        tried |= {(one.name, seed) for one, seed in jobs}
        failed |= runner.play_all(jobs)
    sys.exit(failed)


def settings_of(study: str, rows: list[dict[str, str]]) -> list[Setting]:
    """A study's settings, with those that its held-out samples have chosen by now."""
    settings = list(ALL[study]())
    return settings + list(confirmed(settings, rows))


def _left(
    runner: Runner, studies: Iterable[str], seeds: list[int], tried: set[tuple[str, int]]
) -> list[tuple[Setting, int]]:
    """Runs without a line that were not tried in this call."""
    rows = lines(runner.results)
    settings = known((one for s in studies for one in settings_of(s, rows)), runner.paths)
    jobs = runner.missing(settings, seeds)
    return [(one, seed) for one, seed in jobs if (one.name, seed) not in tried]


def _list(runner: Runner, studies: Iterable[str], seeds: list[int]) -> None:
    """A line for each run that is left, and sums by study."""
    rows, total = lines(runner.results), 0.0
    for study in studies:
        jobs = runner.missing(settings_of(study, rows), seeds)
        costs = [minutes(one, runner.stated["rounds"]) for one, _ in jobs]
        for (one, seed), cost in zip(jobs, costs, strict=True):
            print(f"{study:12} {one.name} seed {seed}: {cost:.1f} min")
        groups = {one.group for one in ALL[study]() if one.group}
        later = f", then the best of {len(groups)} group(s)" if groups else ""
        print(f"{study:12} {len(jobs)} runs, {sum(costs):.0f} core-minutes{later}")
        total += sum(costs)
    print(f"in all {total:.0f} core-minutes")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path, metavar="RESULTS.csv")
    parser.add_argument("studies", nargs="*", type=_study, metavar="STUDY", help=", ".join(ALL))
    parser.add_argument("--path", action="append", default=[], type=_named, metavar="DATA=PLACE")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path(".scratch/reproduction"))
    parser.add_argument("--list", action="store_true", help="print what is left, with its cost")
    parser.add_argument("--table", action="store_true", help="print results instead")
    return parser.parse_intermixed_args()


def _study(name: str) -> str:
    if name not in ALL:
        raise argparse.ArgumentTypeError(f"no study is called {name}: {', '.join(ALL)}.")
    return name


def _named(text: str) -> tuple[str, Path]:
    name, _, path = text.partition("=")
    return name, Path(path)


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
