"""The gram stage against a bare ``dsyrk`` over the same samples, in one run.

`python -m benchmarks.gram_stage [--samples 50000 --features 768 --clients 100]`

The bare rate is BLAS alone on one float64 matrix in memory, on as many cores. `computing` checks
and reads the HDF5 files, sorts rows by client, converts, multiplies, sums classes and packs
triangles. `all` also writes the uploads: checksums, a hash, and a sync to disk.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.linalg.blas
from threadpoolctl import threadpool_limits

from benchmarks.synthetic import Shape, write_artifacts
from pfl.data.features.features import open_features
from pfl.data.samples.clients import read_clients
from pfl.data.samples.index import read_index
from pfl.runtime.machine import cores
from pfl.runtime.process import keep_memory
from stages.gram import client_moments, gram


def bare_seconds(path: Path, samples: int, threads: int) -> float:
    """Seconds of one ``dsyrk`` over all training samples."""
    with open_features(path) as features:
        matrix = np.asfortranarray(features.rows(0, samples).astype(np.float64).T)
    with threadpool_limits(threads):
        start = time.perf_counter()
        scipy.linalg.blas.dsyrk(1.0, matrix)
        return time.perf_counter() - start


def computing_seconds(folder: Path) -> float:
    """Seconds of everything but writing: HDF5 files to every client's moments."""
    with threadpool_limits(1):
        start = time.perf_counter()
        samples = read_index(folder / "index.h5")
        held = read_clients(folder / "clients.h5").train
        with open_features(folder / "features.h5") as source:
            for _ in client_moments(source, held, samples):
                pass
        return time.perf_counter() - start


def stage_seconds(folder: Path) -> float:
    """Seconds of the stage's own function, start of Python left out."""
    inputs = (folder / "index.h5", folder / "clients.h5", folder / "features.h5")
    with threadpool_limits(1):
        start = time.perf_counter()
        gram(*inputs, folder / "uploads.h5", project=0, lift=0, norm="none", seed=0)
        return time.perf_counter() - start


def main() -> None:
    """Measure and print medians of interleaved runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=768)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--runs", type=int, default=7)
    a = parser.parse_args()
    keep_memory()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_artifacts(folder, Shape(a.samples, 1000, a.features, 100, a.clients))
        times = []
        for _ in range(a.runs):
            bare = bare_seconds(folder / "features.h5", a.samples, cores())
            times.append((bare, computing_seconds(folder), stage_seconds(folder)))
        size = (folder / "uploads.h5").stat().st_size
    print(f"N={a.samples} m={a.features} K={a.clients}, {cores()} cores, {a.runs} runs, medians")
    flops = a.samples * a.features * (a.features + 1)
    for name, seconds in zip(("bare dsyrk", "computing", "all"), np.transpose(times), strict=True):
        ratio = np.median(np.transpose(times)[0] / seconds)
        rate = flops / np.median(seconds) / 1e9
        print(f"{name:>12}{np.median(seconds):7.2f} s{rate:7.0f} Gflop/s, {ratio:.2f} of bare")
    print(f"uploads.h5: {size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
