"""One process a core, one thread each: many small requests to one context that all inherit.

Two torch threads on one small network can be several times slower than one, so clients are the unit
of parallel work. Processes are forked: the context (data, network) is shared, not copied. Requests
and replies cross a pipe, their tensors copied: LeNet-5's 0.24 MiB take 1 ms and ResNet-18's 43 MiB
0.1 s, against seconds of training. In a single process nothing is copied. A reply depends on the
context and the request alone, so the number of workers changes nothing.
"""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.reduction import ForkingPickler
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from pfl.errors import InputError
from pfl.runtime.process import end_with_parent, keep_memory

Reply = TypeVar("Reply", covariant=True)


@runtime_checkable
class Request(Protocol[Reply]):
    """What is to be done, as a record that can cross a pipe."""

    def perform(self, context: Any, /) -> Reply:
        """Do it."""
        ...


@runtime_checkable
class Run(Protocol):
    """Has requests performed; replies come one by one, in the order of the requests."""

    def __call__(self, requests: Sequence[Request[Reply]], /) -> Iterator[Reply]:
        """Yield the reply to each request."""
        ...


@contextmanager
def workers(context: object, count: int) -> Iterator[Run]:
    """Start ``count`` processes that hold ``context``; with one, work in this process.

    Requests start in the order given, each in the next free process, so put long ones first.

    Raises:
        InputError: a worker was killed or crashed. Whatever a request raises is raised here.
    """
    if count == 1:
        torch.set_num_threads(1)
        keep_memory()
        yield lambda requests: (request.perform(context) for request in requests)
        return
    # Torch's own way puts each tensor into shared memory, with a file descriptor for each.
    ForkingPickler.register(Tensor, _copied)
    pool = ProcessPoolExecutor(
        count,
        mp_context=multiprocessing.get_context("fork"),
        initializer=_start,
        initargs=(os.getpid(), context),
    )
    with pool:
        yield lambda requests: _spread(pool, requests)


def _spread(pool: ProcessPoolExecutor, requests: Sequence[Request[Reply]]) -> Iterator[Reply]:
    futures = deque(pool.submit(_perform, request) for request in requests)
    processes = list(pool._processes.values())
    try:
        while futures:
            yield futures.popleft().result()
    except BrokenProcessPool as error:
        pool.shutdown()  # Every process has ended then, the others by SIGTERM.
        codes = [process.exitcode or 0 for process in processes]
        raise InputError(_end_of_worker(min(codes, key=_ENDED_BY_POOL.__contains__))) from error
    finally:
        for future in futures:  # After a failure, what has not started is not worth starting.
            future.cancel()


_ENDED_BY_POOL = {0, -signal.SIGTERM}
_CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}


def _end_of_worker(code: int) -> str:
    """What a process's exit code, the negative number of a signal, says of its end."""
    if code == -signal.SIGKILL:
        return (
            "A worker process was killed (SIGKILL), most likely because memory ran out: set a "
            "smaller batch-size (in the section rounds, or head-rounds for heads) or use fewer "
            "cores (taskset), and run again; finished rounds are kept."
        )
    how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
    if -code not in _CRASHES:
        return f"A worker process ended early ({how}): run again; finished rounds are kept."
    return (
        f"A worker process crashed inside a library ({how}), most likely torch "
        f"{torch.__version__}: run again; finished rounds are kept. If it crashes again, try "
        "another version of torch."
    )


def _copied(tensor: Tensor) -> tuple[Callable[[np.ndarray], Tensor], tuple[np.ndarray]]:
    """How a tensor crosses the pipe: as the array of its numbers."""
    return torch.from_numpy, (tensor.detach().cpu().numpy(),)


_context: object = None  # of a worker process, for as long as it lives


def _start(parent: int, context: object) -> None:
    """Prepare a worker: its context, one thread, memory kept, and an end when its parent ends."""
    global _context
    _context = context
    torch.set_num_threads(1)
    end_with_parent(parent)
    keep_memory()


def _perform(request: Request[Reply]) -> Reply:
    return request.perform(_context)
