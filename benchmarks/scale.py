"""A thousand clients: time and memory of gram to evaluate, and of a `dvc repro` that does nothing.

`python -m benchmarks.scale [--clients 1000 --samples 50000 --features 768 --classes 100]`

Each stage runs as its own process, as in the pipeline, with the parameters of params.yaml; memory
is its largest resident set.
"""

import argparse
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from benchmarks.synthetic import Shape, write_artifacts

ROOT = Path(__file__).parents[1]


class Run(NamedTuple):
    """Seconds, seconds of processors and GiB of one process."""

    seconds: float
    cpu: float
    memory: float


def run_stage(folder: Path, stage: str, params: dict) -> Run:
    """Run one stage as a process in ``folder``."""
    pipeline = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))
    words = pipeline["stages"][stage]["cmd"].split()[1:]
    flags = [flag for w in words if w.startswith("$") for flag in as_flags(params[w[2:-1]])]
    words = [word for word in words if not word.startswith("$")]
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *words, *flags],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{stage} ended with status {status}")
    seconds = time.perf_counter() - start
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20)


def as_flags(section: dict, before: str = "--") -> Iterator[str]:
    """A section of parameters as DVC writes it on the command line."""
    for name, value in section.items():
        if isinstance(value, dict):
            yield from as_flags(value, f"{before}{name}.")
        elif isinstance(value, bool):
            yield before + name if value else f"--no-{name}"
        else:
            for one in value if isinstance(value, list) else [value]:
                yield from (before + name, str(one))


def measure_stages(shape: Shape) -> None:
    """Print time and memory of each stage on synthetic features."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        # In a process of its own, whose memory would else count as its children's too.
        maker = multiprocessing.get_context("spawn").Process(
            target=write_artifacts, args=(folder / "data", shape)
        )
        maker.start()
        maker.join()
        params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
        for stage in ("gram", "aggregate", "personalize", "evaluate"):
            run = run_stage(folder, stage, params)
            print(f"{stage:>12}{run.seconds:8.1f} s{run.memory:8.2f} GiB")
        for path in sorted((folder / "data").glob("*.h5")):
            print(f"{path.name:>12}{path.stat().st_size / 2**20:8.0f} MiB")


def measure_nothing_to_do(clients: int) -> None:
    """Print the time of a second `dvc repro` of the whole pipeline with K clients."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for item in ("pfl", "stages", ".dvc/config", "dvc.yaml", "params.yaml", ".dvcignore"):
            (folder / item).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / item).is_dir() else shutil.copy
            copy(ROOT / item, folder / item)
        (folder / ".dvc" / "config.local").write_text("[core]\n    no_scm = true\n")
        for item in ("raw", "weights", "begin"):
            (folder / "data" / item).mkdir(parents=True)
            shutil.copy(ROOT / "data" / item / "README.md", folder / "data" / item)
        path = folder / "params.yaml"
        params = yaml.safe_load(path.read_text(encoding="utf-8"))
        params["partition"] |= {"clients": clients, "min-samples": 1}
        params["extract"] |= {"backbone": "random-tiny", "image-size": 16}
        path.write_text(yaml.safe_dump(params))
        environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        seconds = []
        for _ in range(4):
            start = time.perf_counter()
            subprocess.run(["dvc", "repro", "-q"], cwd=folder, env=environment, check=True)
            seconds.append(time.perf_counter() - start)
        print(f"`dvc repro` with nothing to do, K={clients}: {min(seconds[1:]):.1f} s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--test", type=int, default=10_000)
    parser.add_argument("--features", type=int, default=768)
    parser.add_argument("--classes", type=int, default=100)
    a = parser.parse_args()
    measure_stages(Shape(a.samples, a.test, a.features, a.classes, a.clients))
    measure_nothing_to_do(a.clients)


if __name__ == "__main__":
    main()
