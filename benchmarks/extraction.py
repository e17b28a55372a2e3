"""Extraction against the bare backbone, in one run: images per second, and their ratio.

    python -m benchmarks.extraction [--npz cifar10.npz] [--images 4096]

"Bare" is the same number of processes with one thread each, running the network on resized images
that are in memory already: no reading, resizing, quantizing or writing. The start of the processes
counts for all. Rounds alternate between the candidates, and each ratio is the median over rounds.
The ratio of processor time is the one to read when other programs use the machine, too.
"""

import argparse
import logging
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from pfl.backbones.extraction.compute import Work
from pfl.backbones.extraction.resume import extract_blocks
from pfl.backbones.models.families import load_backbone
from pfl.data.features.fixed_point import step_for
from pfl.data.images.images import Images, PixelArray, write_images
from pfl.runtime.machine import cores
from pfl.runtime.process import keep_memory

Cost = tuple[float, float]  # seconds on the clock, seconds of processor time


def main() -> None:
    """Print the table."""
    options = _options()
    torch.set_num_threads(1)
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as folder:
        work = _work(options, Path(folder))
        ready = [work.pixels(number) for number in range(work.batches)]
        candidates: dict[str, Callable[[], object]] = {
            "extraction": lambda: _extract(work, Path(folder), cores()),
            "extraction, 1 worker": lambda: _extract(work, Path(folder), 1),
            "bare": lambda: _bare(work, ready, cores(), 1, True),
            "bare, allocator's defaults": lambda: _bare(work, ready, cores(), 1, False),
            f"bare, 1 process of {cores()} threads": lambda: _bare(work, ready, 1, cores(), True),
        }
        costs: dict[str, list[Cost]] = {name: [] for name in candidates}
        for _ in range(options.rounds):
            for name, run in candidates.items():
                costs[name].append(_cost(run))
    _print(costs, len(work.images), options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--npz", type=Path, help="images as x_train; generated ones without it")
    parser.add_argument("--images", type=int, default=4096)
    parser.add_argument("--backbone", default="tf_efficientnet_lite0")
    parser.add_argument("--weights", type=Path, default=Path("data/weights"))
    parser.add_argument("--image-size", type=int, default=96)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def _work(options: argparse.Namespace, folder: Path) -> Work:
    if options.npz:
        pixels = np.load(options.npz, allow_pickle=False)["x_train"][: options.images]
    else:
        shape = (options.images, 32, 32, 3)
        pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    write_images(folder / "images.h5", PixelArray(pixels), {})
    backbone = load_backbone(options.backbone, options.weights, options.image_size)
    return Work(
        images=Images(folder / "images.h5"),
        backbone=backbone,
        step=step_for(backbone.feature_range),
        batch=options.batch_size,
        precision="fp32",
        device=torch.device("cpu"),
    )


def _cost(run: Callable[[], object]) -> Cost:
    clock, processor = time.perf_counter(), _processor_seconds()
    run()
    return time.perf_counter() - clock, _processor_seconds() - processor


def _processor_seconds() -> float:
    """Of this process and of its children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _extract(work: Work, folder: Path, workers: int) -> None:
    """Everything from images.h5 to finished blocks."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        extract_blocks(work, Path(scratch), workers, range(work.batches))


def _bare(work: Work, ready: list[torch.Tensor], processes: int, threads: int, keep: bool) -> None:
    """The network alone, on resized batches that are dealt to ``processes``."""
    context = multiprocessing.get_context("fork")
    jobs = [
        context.Process(target=_forward, args=(work, ready[part::processes], threads, keep))
        for part in range(processes)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()


def _forward(work: Work, batches: list[torch.Tensor], threads: int, keep: bool) -> None:
    torch.set_num_threads(threads)
    if keep:
        keep_memory()
    for pixels in batches:
        work.backbone.features(pixels)


def _print(costs: dict[str, list[Cost]], count: int, options: argparse.Namespace) -> None:
    print(
        f"{options.backbone}, {options.image_size} px, batches of {options.batch_size}, "
        f"{count} images, {cores()} cores, {options.rounds} rounds"
    )
    print(f"{'':36}{'images/s':>10}{'of bare':>9}{'processor ms/image':>20}{'of bare':>9}")
    for name, spent in costs.items():
        pairs = list(zip(spent, costs["bare"], strict=True))
        clock, processor = (statistics.median(cost[i] for cost in spent) for i in (0, 1))
        speed, thrift = (statistics.median(b[i] / c[i] for c, b in pairs) for i in (0, 1))
        rate, each = count / clock, processor / count * 1000
        print(f"{name:36}{rate:10.0f}{speed:9.2f}{each:20.2f}{thrift:9.2f}")


if __name__ == "__main__":
    main()
