"""Progress of a long loop: a live bar on a terminal, a plain line a minute anywhere else."""

import logging
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")
LINE_SECONDS = 60.0
log = logging.getLogger(__name__)


class _Lines:
    """A stream for tqdm that turns each redraw of the bar into one log line."""

    def write(self, text: str) -> None:
        line = text.strip()
        if line:
            log.info("%s", line)

    def flush(self) -> None:
        """There is nothing to flush: the logger has written the line."""


def progress(
    items: Iterable[Item], total: int, unit: str, label: str, initial: int = 0, step: int = 1
) -> Iterator[Item]:
    """Yield ``items`` while showing how many of ``total`` units are done, the rate and the ETA.

    Each item counts ``step`` units (the last one whatever is left); ``initial`` units were done
    before, for instance by a run that was killed.
    """
    terminal = sys.stderr.isatty()
    with tqdm(
        total=total,
        initial=initial,
        unit=unit,
        desc=label,
        file=sys.stderr if terminal else _Lines(),
        mininterval=0.2 if terminal else LINE_SECONDS,
        maxinterval=LINE_SECONDS,
        leave=False,
        dynamic_ncols=terminal,
        delay=0.0 if terminal else LINE_SECONDS,
    ) as bar:
        for item in items:
            yield item
            bar.update(min(step, total - bar.n))
