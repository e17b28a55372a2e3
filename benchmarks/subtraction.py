"""A client leaves: `pfl forget` against aggregating everybody else again, in one run.

`python -m benchmarks.subtraction [--clients 100 1000 --features 768 --classes 100]`

Both start from files on disk and end with the same `server.h5`, synced to disk. The uploads are of
random features; a few different clients, each many times. One BLAS thread. Medians of runs in turn.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.synthetic import STEP, clients_moments
from pfl.cli.commands.membership import forget, upload
from pfl.fedhip.moments import Moments
from pfl.fedhip.uploads import create_uploads
from stages.aggregate import aggregate

CLIENT = 7
PLAIN = (False, "auto", "none", 1e-5, "secret")  # no masked sum, no noise


def write_uploads(path: Path, sent: Sequence[Moments], clients: int) -> None:
    """What K clients sent, in turn one of ``sent``."""
    first = sent[0]
    with create_uploads(path, clients, first.features, len(first.count), STEP) as file:
        for client in range(clients):
            file.add(client, sent[client % len(sent)])


def seconds(work: Callable[[], None]) -> float:
    """Time of one run."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(folder: Path, beta: str, runs: int) -> tuple[float, float]:
    """Seconds of leaving by aggregation, and by subtraction."""
    uploads, members, own = (folder / f"{name}.h5" for name in ("uploads", "members", "own"))
    before, again, after = (folder / f"{name}.h5" for name in ("before", "again", "after"))
    aggregate(uploads, before, members, beta, [], *PLAIN)
    upload(CLIENT, own, uploads)
    times = [
        (
            seconds(lambda: aggregate(uploads, again, members, beta, [CLIENT], *PLAIN)),
            seconds(lambda: forget([own], after, [], before)),
        )
        for _ in range(runs)
    ]
    if again.read_bytes() != after.read_bytes():
        raise SystemExit("The two ways to leave differ.")
    whole, part = np.median(times, axis=0)
    return float(whole), float(part)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=768)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--clients", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--samples", type=int, default=500, help="of each client")
    parser.add_argument("--runs", type=int, default=5)
    a = parser.parse_args()
    print(f"m={a.features} d={a.classes} N_k={a.samples}, medians of {a.runs} runs")
    print(f"{'K':>6}{'beta':>6}{'aggregate':>12}{'forget':>12}{'ratio':>8}")
    with threadpool_limits(1):
        sent = clients_moments(a.samples, a.features, a.classes, 10)
        for clients in a.clients:
            with tempfile.TemporaryDirectory() as name:
                write_uploads(Path(name) / "uploads.h5", sent, clients)
                for beta in ("1.0", "auto"):
                    whole, part = measure(Path(name), beta, a.runs)
                    print(f"{clients:>6}{beta:>6}{whole:10.2f} s{part:10.2f} s{whole / part:8.1f}")


if __name__ == "__main__":
    main()
