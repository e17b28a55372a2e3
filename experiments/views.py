"""Accuracy, time and memory of gram to evaluate through views of the same cached features.

    python -m experiments.views DATA [--lift 0 2048 4096 --project 0]

DATA is a folder with index.h5, clients.h5 and features.h5. Each stage runs as its own process, as
in the pipeline, with the other parameters of params.yaml; seconds are those of all four stages,
memory is the largest resident set of any. The last column is the backward error of the solve for
the global head at beta = 1e-6: ‖(A + βI)G − B‖ over ‖A‖‖G‖ + ‖B‖, in Frobenius norms.
"""

import argparse
import itertools
import json
import tempfile
from pathlib import Path

import numpy as np
import yaml

from benchmarks.scale import ROOT, run_stage
from pfl.fedhip.server import read_server
from pfl.ridge.linalg import factor

STAGES = ("gram", "aggregate", "personalize", "evaluate")
KINDS = ("local", "global", "personalized")


def backward_error(server: Path, beta: float = 1e-6) -> float:
    """How far the solution is from solving its system, relative to the system's size."""
    total, _ = read_server(server)
    gram, cross = total.gram_matrix(), total.cross_matrix()
    head = factor(gram, beta).solve(cross)
    size = np.linalg.norm(gram) * np.linalg.norm(head) + np.linalg.norm(cross)
    return float(np.linalg.norm(gram @ head + beta * head - cross) / size)


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
        error = backward_error(folder / "data" / "server.h5")
        told = json.loads((folder / "reports" / "fedhip" / "metrics.json").read_text())
    accuracy = [f"{100 * told[f'fedhip:{kind}']['local-test']['mean']:.2f}" for kind in KINDS]
    seconds = [f"{sum(run.seconds for run in runs.values()):.0f}"]
    seconds += [f"{sum(run.cpu for run in runs.values()):.0f}"]
    cells = [str(project), str(lift), *accuracy, *seconds]
    cells += [f"{max(run.memory for run in runs.values()):.2f}", f"{error:.0e}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--lift", type=int, nargs="+", default=[0, 2048, 4096])
    parser.add_argument("--project", type=int, nargs="+", default=[0])
    a = parser.parse_args()
    print("| project | lift |", " | ".join(KINDS), "| seconds | CPU seconds | GiB | error |")
    print("|---:" * (len(KINDS) + 6) + "|")
    for project, lift in itertools.product(a.project, a.lift):
        print(measure(a.data, project, lift), flush=True)


if __name__ == "__main__":
    main()
