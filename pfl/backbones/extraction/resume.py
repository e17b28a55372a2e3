"""All batches of a data set, with finished work kept on disk so that a killed run goes on."""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pfl.backbones.extraction.blocks import Block, load_blocks, write_block
from pfl.backbones.extraction.compute import Work, embed
from pfl.data.features.fixed_point import Quantized
from pfl.runtime.progress import progress

log = logging.getLogger(__name__)
BLOCK_SECONDS = 10.0  # at most so much work is lost by a kill
BLOCK_ROWS = 1 << 13  # and at most so many rows are held in memory


def extract_blocks(work: Work, folder: Path, workers: int, numbers: range) -> list[Block]:
    """Compute those of the batches ``numbers`` that ``folder`` lacks; all blocks, by sample number.

    Raises:
        InputError: an image is damaged, a feature is not finite, or a worker was killed.
    """
    blocks = load_blocks(folder, work.backbone.m)
    todo = _missing(blocks, work, numbers)
    total = min(numbers.stop * work.batch, len(work.images)) - numbers.start * work.batch
    done = sum(block.stop - block.start for block in blocks)
    if done:
        log.info("Going on: %d of %d images were finished before.", done, total)
    if todo:
        numbered = zip(todo, embed(work, todo, workers), strict=True)
        pieces = progress(numbered, total, "image", "Extracting", initial=done, step=work.batch)
        blocks += _stored(folder, pieces, work.batch)
    return sorted(blocks, key=lambda block: block.start)


def _missing(blocks: Sequence[Block], work: Work, numbers: range) -> list[int]:
    """Those of the batches ``numbers`` that no block holds."""
    finished = {
        number
        for block in blocks
        for number in range(block.start // work.batch, -(-block.stop // work.batch))
    }
    return [number for number in numbers if number not in finished]


def _stored(folder: Path, pieces: Iterable[tuple[int, Quantized]], batch: int) -> Iterator[Block]:
    """Write consecutive batches to a block every ``BLOCK_SECONDS``."""
    pending: list[Quantized] = []
    first, since = 0, time.monotonic()
    for number, piece in pieces:
        late = time.monotonic() - since > BLOCK_SECONDS or len(pending) * batch >= BLOCK_ROWS
        if pending and (late or number != first + len(pending)):
            yield write_block(folder, first * batch, pending)
            pending, since = [], time.monotonic()
        if not pending:
            first = number
        pending.append(piece)
    if pending:
        yield write_block(folder, first * batch, pending)
