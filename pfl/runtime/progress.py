"""Progress of a long loop: a live bar on a terminal, a plain line a minute anywhere else."""

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Item = TypeVar("Item")
LINE_SECONDS, DRAW_SECONDS = 60.0, 0.2
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Loop:
    """What is counted: units of ``label``, ``initial`` of them done before."""

    label: str
    unit: str
    total: int
    initial: int


def progress(
    items: Iterable[Item], total: int, unit: str, label: str, initial: int = 0, step: int = 1
) -> Iterator[Item]:
    """Yield ``items`` while showing how many of ``total`` units are done, the rate and the rest.

    Each item counts ``step`` units (the last one whatever is left); ``initial`` units were done
    before, for instance by a run that was killed. Where INFO is not logged there is no bar either.
    """
    loop = _Loop(label, unit, total, initial)
    console = Console(stderr=True)
    counted = ((item, min(initial + step * n, total)) for n, item in enumerate(items, start=1))
    if console.is_terminal and log.isEnabledFor(logging.INFO):
        return _bar(counted, loop, console)
    return _lines(counted, loop)


def _bar(items: Iterable[tuple[Item, int]], loop: _Loop, console: Console) -> Iterator[Item]:
    """A bar that goes away at the end.

    Without rich's thread that redraws it: loops fork workers, and a lock that another thread holds
    at that moment would stay locked in them.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("[dim]{task.fields[rate]}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task(loop.label, total=loop.total, completed=loop.initial, rate="")
        start = drawn = time.monotonic()
        for item, done in items:
            yield item
            rate = _rate(_speed(done - loop.initial, start), loop.unit)
            bar.update(task, completed=done, rate=rate)
            if time.monotonic() - drawn >= DRAW_SECONDS:
                drawn = time.monotonic()
                bar.refresh()


def _lines(items: Iterable[tuple[Item, int]], loop: _Loop) -> Iterator[Item]:
    """A line of the log every ``LINE_SECONDS``; none for what is done sooner."""
    start = told = time.monotonic()
    for item, done in items:
        yield item
        now = time.monotonic()
        if now - told >= LINE_SECONDS:
            told, speed = now, _speed(done - loop.initial, start)
            shown, rest = _rate(speed, loop.unit), _duration((loop.total - done) / speed)
            log.info("%s: %d/%d, %s, %s left", loop.label, done, loop.total, shown, rest)


def _speed(units: int, start: float) -> float:
    """Units a second since ``start``."""
    return units / max(time.monotonic() - start, 1e-9)


def _rate(speed: float, unit: str) -> str:
    """Units a second, or seconds a unit where that is the readable number."""
    return f"{speed:.3g} {unit}/s" if speed >= 1 else f"{1 / speed:.3g} s/{unit}"


def _duration(seconds: float) -> str:
    """As ``1:02:03``, or ``2:03`` below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
