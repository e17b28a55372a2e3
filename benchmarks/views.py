"""Accuracy, time and memory of gram to evaluate through views of the same cached features.

    python -m benchmarks.views DATA [--lift 0 2048 4096 --project 0]

DATA is a folder with index.h5, clients.h5 and features.h5. Each stage runs as its own process, as
in the pipeline, with the other parameters of params.yaml; seconds are those of all four stages,
memory is the largest resident set of any.
"""

import argparse
import itertools
import json
import tempfile
from pathlib import Path

import yaml

from benchmarks.scale import ROOT, run_stage

STAGES = ("gram", "aggregate", "personalize", "evaluate")
KINDS = ("local", "global", "personalized")


def measure(data: Path, project: int, lift: int) -> str:
    """One row of the table."""
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    params["features"] |= {"project": project, "lift": lift}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        for item in ("index.h5", "clients.h5", "features.h5"):
            (folder / "data" / item).symlink_to((data / item).resolve())
        runs = {stage: run_stage(folder, stage, params) for stage in STAGES}
        told = json.loads((folder / "reports" / "fedhip" / "metrics.json").read_text())
    accuracy = [f"{100 * told[kind]['mean']:.2f}" for kind in KINDS]
    seconds = [f"{sum(run.seconds for run in runs.values()):.0f}"]
    seconds += [f"{sum(run.cpu for run in runs.values()):.0f}"]
    memory = f"{max(run.memory for run in runs.values()):.2f}"
    return " | ".join(["", str(project), str(lift), *accuracy, *seconds, memory, ""]).strip()


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--lift", type=int, nargs="+", default=[0, 2048, 4096])
    parser.add_argument("--project", type=int, nargs="+", default=[0])
    a = parser.parse_args()
    print("| project | lift |", " | ".join(KINDS), "| seconds | CPU seconds | GiB |")
    print("|---:" * (len(KINDS) + 5) + "|")
    for project, lift in itertools.product(a.project, a.lift):
        print(measure(a.data, project, lift), flush=True)


if __name__ == "__main__":
    main()
