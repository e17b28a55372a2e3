"""Progress of a long loop: a live bar on a terminal, a plain line a minute anywhere else.

By rich, not tqdm: that has a thread of its own, and off a terminal it writes carriage returns.
"""

import logging
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Item = TypeVar("Item")
LINE_SECONDS, DRAW_SECONDS = 60.0, 0.2
log = logging.getLogger(__name__)


def progress(
    items: Iterable[Item], total: int, unit: str, label: str, initial: int = 0, step: int = 1
) -> Iterator[Item]:
    """Yield ``items`` while showing how many of ``total`` units are done, the rate and the rest.

    Each item counts ``step`` units (the last one whatever is left); ``initial`` units were done
    before, for instance by a run that was killed. The bar goes away at the end. There is none where
    INFO is not logged, and no line for what takes less than ``LINE_SECONDS``.
    """
    console = Console(stderr=True)
    live = console.is_terminal and log.isEnabledFor(logging.INFO)
    pause = DRAW_SECONDS if live else LINE_SECONDS
    with _bar(console, live) as bar:
        task = bar.add_task(label, total=total, completed=initial, rate="")
        start = shown = time.monotonic()
        for number, item in enumerate(items, start=1):
            yield item
            now, done = time.monotonic(), min(initial + step * number, total)
            if now - shown < pause:
                continue
            shown, speed = now, (done - initial) / max(now - start, 1e-9)
            rate = f"{speed:.3g} {unit}/s" if speed >= 1 else f"{1 / speed:.3g} s/{unit}"
            if live:
                bar.update(task, completed=done, rate=rate, refresh=True)
            else:
                rest = _duration((total - done) / speed)
                log.info("%s: %d/%d, %s, %s left", label, done, total, rate, rest)


def _bar(console: Console, live: bool) -> Progress:
    """A bar that is drawn when it is told to.

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
    return Progress(*columns, console=console, transient=True, auto_refresh=False, disable=not live)


def _duration(seconds: float) -> str:
    """As ``1:02:03``, or ``2:03`` below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
