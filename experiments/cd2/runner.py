"""Plays the runs of studies, one a core, each a process of its own; a line for each as it ends."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np

from experiments.cd2.data import made
from experiments.cd2.play import EXTRA, MODELS, Play, watched, write_play
from experiments.ledger import add, lines
from experiments.studies import Setting

ENSEMBLES = ("mean-probability", "mean-log-probability", "vote", "weight-average")
LOCAL, OTHER = "local-test", {"downloaded": "trained", "trained": "downloaded"}
LAST_TEN = 10
COLUMNS = (
    "setting", "method", "seed", "changed", "local", *ENSEMBLES, "validation", "upload-bytes",
    "downloaded", "trained", "downloaded-last-ten", "trained-last-ten", "external",
    "external-mean", "best-round", "best-own", "highest-confidence", "shared-part", "version",
)  # fmt: skip
Job = tuple[Setting, int]


@dataclass(frozen=True)
class Runner:
    """How runs are made.

    Attributes:
        results: the file that gets the lines.
        work: folder of unfinished runs, data, and models that others begin from.
        paths: of the data, by their sources' names.
        processes: cores.
        stated: the sections of params.yaml, `rounds` as the protocol has it.
    """

    results: Path
    work: Path
    paths: Mapping[str, Path]
    processes: int
    stated: Mapping[str, Any]

    def folder(self, setting: Setting, seed: int) -> Path:
        """Where a run is made."""
        return self.work / setting.name / f"seed-{seed}"

    def play_all(self, jobs: Sequence[Job]) -> int:
        """Each run, those that others begin from first; 1 if one failed, which stops no other."""
        files = {self._dealt(one): self._made(one) for one, _ in jobs}
        kept = {(one.begin.name, seed) for one, seed in jobs if one.begin}
        version, failed = code_version(), 0
        for begun in (False, True):
            part = [job for job in jobs if (job[0].begin is not None) == begun]
            failed |= self._play(part, files, kept, version)
        return failed

    def _play(
        self, jobs: Sequence[Job], files: Mapping[str, dict[str, Path]],
        kept: set[tuple[str, int]], version: str,
    ) -> int:  # fmt: skip
        free: Queue[int] = Queue()
        for core in sorted(os.sched_getaffinity(0))[: self.processes]:
            free.put(core)
        failed = False
        with ThreadPoolExecutor(self.processes) as pool:
            try:
                runs = {
                    pool.submit(self._run, *job, files[self._dealt(job[0])], free): job
                    for job in jobs
                }
                for number, run in enumerate(as_completed(runs), 1):
                    setting, seed = runs[run]
                    told = run.exception()
                    failed |= told is not None
                    if not told:
                        row = row_of(setting, seed, self.folder(setting, seed))
                        add(self.results, COLUMNS, row | {"version": version})
                        if (setting.name, seed) not in kept:
                            shutil.rmtree(self.folder(setting, seed))
                    text = f"{number}/{len(jobs)} {setting.name} seed {seed} {told or ''}"
                    print(text.rstrip(), flush=True)
            finally:
                pool.shutdown(cancel_futures=True)
        return int(failed)

    def _run(self, setting: Setting, seed: int, files: dict[str, Path], free: "Queue[int]") -> None:
        """One run, on a core that no other run has."""
        folder = self.folder(setting, seed)
        write_play(folder, self.play_of(setting, seed, files))
        core = free.get()
        try:
            with (folder / "log.txt").open("w") as log:
                ended = subprocess.run(
                    ["taskset", "--cpu-list", str(core), "nice", sys.executable, "-m",
                     "experiments.cd2.play", str(folder)],
                    check=False, stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"},
                )  # fmt: skip
        finally:
            free.put(core)
        if ended.returncode:
            last = (folder / "log.txt").read_text().strip().splitlines()[-1:]
            raise RuntimeError(f"failed: {''.join(last)}")

    def play_of(self, setting: Setting, seed: int, files: Mapping[str, Path]) -> Play:
        """What the process of a run is told."""
        rounds = self.stated["rounds"] | dict(setting.rounds)
        if setting.begin is not None:
            rounds["begin-from"] = str(self.folder(setting.begin, seed) / MODELS)
        own = self.stated["train"][setting.method] | dict(setting.own)
        named = {name: str(path) for name, path in files.items()}
        return Play(setting.method, seed, own, rounds, named, setting.reading)

    def _dealt(self, one: Setting) -> str:
        return repr((one.data, one.clients, one.partition))

    def _made(self, one: Setting) -> dict[str, Path]:
        return made(one.data, one.clients, one.partition, self.paths, self.work / "data")

    def missing(self, settings: Iterable[Setting], seeds: Sequence[int]) -> list[Job]:
        """Runs without a line, and those without models that they begin from, each once."""
        done = {(row["setting"], int(row["seed"])) for row in lines(self.results)}
        jobs: dict[tuple[str, int], Job] = {}

        def want(one: Setting, seed: int, models: bool) -> None:
            there = not models or (self.folder(one, seed) / MODELS).exists()
            if (one.name, seed) in done and there:
                return
            if one.begin is not None:
                want(one.begin, seed, models=True)
            jobs[one.name, seed] = one, seed

        for one in settings:
            for seed in one.seeds or seeds:
                if seed in seeds:
                    want(one, seed, models=False)
        return list(jobs.values())


def code_version() -> str:
    """The commit, with "dirty" where files differ from it."""
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return told.stdout.strip()


def row_of(setting: Setting, seed: int, folder: Path) -> dict[str, object]:
    """What one run leaves in the file; accuracies are shares, most after the last round."""
    told = json.loads((folder / "metrics.json").read_text())
    tests, history = told[setting.method], lines(folder / "rounds.csv")
    named = str(setting.rounds.get("test", "downloaded"))
    both = {named: LOCAL, OTHER[named]: f"{LOCAL}:{OTHER[named]}"}
    external, clients = tests["external-test"] or {}, watched(folder)
    changed = {"own": dict(setting.own), "rounds": dict(setting.rounds)}
    changed |= {"reading": setting.reading} if setting.reading else {}
    changed |= {"begin": setting.begin.name} if setting.begin else {}
    return {
        "setting": setting.name, "method": setting.method, "seed": seed,
        "changed": json.dumps(changed, sort_keys=True), "local": tests[LOCAL]["mean"],
        **{name: tests["new-test"][name] for name in ENSEMBLES},
        "validation": tests["validation"]["mean"] if tests["validation"] else "",
        "upload-bytes": tests["upload-bytes"],
        **{models: tests[column]["mean"] for models, column in both.items()},
        **{f"{models}-last-ten": last_ten(history, column) for models, column in both.items()},
        "external": external.get(ENSEMBLES[0], ""), "external-mean": external.get("mean", ""),
        "best-round": round(float(np.nanmean(clients, 1).max()), 6),
        "best-own": round(float(np.nanmean(np.nanmax(clients, 0))), 6),
        **json.loads((folder / EXTRA).read_text()),
    }  # fmt: skip


def last_ten(history: Sequence[Mapping[str, str]], column: str) -> float | str:
    """Mean over the last ten rounds; nothing unless all of them were tested."""
    values = [row[column] for row in history[-LAST_TEN:]]
    return round(float(np.mean([float(v) for v in values])), 6) if all(values) else ""


def known(settings: Iterable[Setting], paths: Mapping[str, Path]) -> Iterator[Setting]:
    """Those whose data are given."""
    return (one for one in settings if one.data.source in paths)
