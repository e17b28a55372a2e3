"""Flower's simulation: bytes and seconds of each step, for both methods and several K.

`python -m benchmarks.flower [--clients 10 100 1000] [--features 768 --classes 100]`

FedHiP on synthetic features; two rounds of CD2-pFed (LeNet-5, one epoch) on scikit-learn's digits,
dealt evenly. Every step is told as the server sees it: from its first message to the last answer.
Bytes are those of arrays, in a mean client.
"""

import argparse
import csv
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from benchmarks.synthetic import Shape, write_artifacts
from pfl.flower.local.launch import submit, superlink

ROOT = Path(__file__).parents[1]
TWO_ROUNDS = {"rounds": 2, "epochs": 1, "evaluate-every": 2}


def write_digits(folder: Path, clients: int) -> None:
    """The digits, dealt evenly."""
    images, index = folder / "images.h5", folder / "index.h5"
    prepare = ["prepare", "--dataset", "digits", "--path", "none", "--no-download"]
    prepare += ["--test-fraction", "0.2", "--seed", "0", "--images", images, "--index", index]
    deal = ["partition", "--index", index, "--clients-file", folder / "clients.h5"]
    deal += ["--report", folder / "report", "--scheme", "iid", "--clients", clients]
    deal += ["--concentration", "1", "--classes-per-client", "2", "--min-samples", "1"]
    for stage, *flags in (prepare, [*deal, "--seed", "0"]):
        words = [sys.executable, "-m", f"stages.{stage}", *map(str, flags)]
        subprocess.run(words, cwd=ROOT, check=True, stderr=subprocess.DEVNULL)


def measure(folder: Path, method: str, clients: int) -> None:
    """Run one simulation and print its steps."""
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    params["rounds"] |= TWO_ROUNDS
    (folder / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    config = {"method": method, "clients": clients, "data": str(folder), "reply-seconds": 3600.0}
    config |= {"params": str(folder / "params.yaml"), "report": str(folder / "report")}
    start = time.perf_counter()
    with superlink(folder / "home", simulation=True) as link:
        status, log = submit(link, ROOT / "flower", config, clients)
    if status != "finished:completed":
        raise SystemExit(f"The run ended as {status}:\n{log}")
    print(f"\n{method}, K = {clients}: {time.perf_counter() - start:.0f} s in all", flush=True)
    with (folder / "report" / "traffic.csv").open() as stream:
        for row in csv.DictReader(stream):
            asked = int(row["clients"])
            down, up = (int(row[f"{way}-bytes"]) / asked for way in ("down", "up"))
            seconds = float(row["seconds"])
            print(
                f"  {row['message']:>16}{down:12,.0f} B down{up:12,.0f} B up"
                f"{seconds:9.2f} s{1000 * seconds / asked:8.1f} ms a client",
                flush=True,
            )


def main() -> None:
    """Measure all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=768)
    parser.add_argument("--classes", type=int, default=100)
    asked = parser.parse_args()
    for clients in asked.clients:
        with tempfile.TemporaryDirectory() as name:
            shape = Shape(asked.samples, 1000, asked.features, asked.classes, clients)
            write_artifacts(Path(name), shape)
            measure(Path(name), "fedhip", clients)
        with tempfile.TemporaryDirectory() as name:
            write_digits(Path(name), clients)
            measure(Path(name), "cd2-pfed", clients)


if __name__ == "__main__":
    main()
