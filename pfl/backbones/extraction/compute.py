"""Images in, fixed-point features out, in order, by as many cores as there are.

Batch i is always images i·b … (i+1)·b - 1, and on a CPU each is computed by one worker process
with one thread, from decoding to fixed point: the features depend neither on the number of workers
nor on where an earlier run was stopped. (One thread per process also does more than many threads
on one batch.) With a GPU the workers decode and resize, and this process runs the model.
"""

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import UInt8
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pfl.backbones.models.backbone import Backbone
from pfl.data.features.fixed_point import Quantized, quantize
from pfl.data.images.images import Images
from pfl.errors import InputError, one_line
from pfl.runtime.process import end_with_parent, keep_memory

PREFETCH = 2  # batches per worker


@dataclass(frozen=True)
class Work:
    """What to compute, and how.

    Attributes:
        images: the open ``images.h5``.
        backbone: on the CPU; it is moved where it runs.
        step: of the fixed point.
        batch: images per batch b.
        precision: ``fp32`` or ``bf16``.
        device: where the model runs.
    """

    images: Images
    backbone: Backbone
    step: float
    batch: int
    precision: str
    device: torch.device

    @property
    def batches(self) -> int:
        """How many batches there are; the last may be smaller."""
        return -(-len(self.images) // self.batch)

    def pixels(self, number: int) -> UInt8[Tensor, "b 3 size size"]:
        """Decoded, resized images of one batch."""
        start = number * self.batch
        stop = min(start + self.batch, len(self.images))
        return self.backbone.transform.pixels(self.images.rgb(start, stop))

    def features(self, number: int, pixels: UInt8[Tensor, "b 3 size size"]) -> Quantized:
        """Features of one batch, computed where the model is."""
        pixels = pixels.to(self.device, non_blocking=True)
        features = self.backbone.features(pixels, self.precision).cpu().numpy()
        first = number * self.batch
        return quantize(features, self.step, lambda row: self.images.name(first + row))


def embed(work: Work, todo: Sequence[int], workers: int) -> Iterator[Quantized]:
    """Yield the features of the batches numbered ``todo``, in that order.

    Raises:
        InputError: an image is damaged, a feature is not finite, or a worker was killed.
    """
    return _embedded(work, todo, workers, finish=work.device.type == "cpu")


def _embedded(work: Work, todo: Sequence[int], workers: int, finish: bool) -> Iterator[Quantized]:
    """Have the workers ``finish`` each batch, or run the model here on what they decoded."""
    loader = DataLoader(
        _Batches(work, finish),
        batch_size=None,
        sampler=todo,
        num_workers=max(1, min(workers, len(todo))),
        collate_fn=_unchanged,
        pin_memory=work.device.type == "cuda",
        prefetch_factor=PREFETCH,
        worker_init_fn=partial(_start, os.getpid()),
        multiprocessing_context="fork",  # The model is shared, not copied, and starts at once.
    )
    received = _received(iter(loader))
    work.backbone.module.to(work.device)  # After the fork: workers need nothing of a GPU.
    with closing(received):
        for number, item in zip(todo, received, strict=True):
            if isinstance(item, InputError):
                raise item
            yield item if isinstance(item, Quantized) else work.features(number, item)


Item = Quantized | Tensor | InputError


class _Batches(Dataset[Item]):
    """Batches by number, as pixels or finished; a user's error is a value, not a traceback."""

    def __init__(self, work: Work, finish: bool) -> None:
        self.work, self.finish = work, finish

    def __getitem__(self, number: int) -> Item:
        try:
            pixels = self.work.pixels(number)
            return self.work.features(number, pixels) if self.finish else pixels
        except InputError as error:
            return error


def _unchanged(item: Any) -> Any:
    return item


def _received(items: Iterator[Item]) -> Generator[Item, None, None]:
    try:
        yield from items
    except RuntimeError as error:
        if not str(error).startswith("DataLoader worker (pid"):  # an error inside a worker
            raise
        raise InputError(
            f"A worker process was killed ({one_line(error)}), most likely because "
            "memory ran out: set a smaller extract.batch-size, or close other programs, and run "
            "again; finished work is kept."
        ) from None
    finally:
        # Dropping the last reference ends the workers at once. Left to the garbage collector,
        # together with the traceback of an error, it waits for each of them in vain.
        del items


def _start(parent: int, _: int) -> None:
    """What a worker does first: tie itself to its parent, and keep its memory."""
    end_with_parent(parent)
    keep_memory()
