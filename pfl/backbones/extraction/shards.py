"""Feature extraction in parts, by as many machines or devices, merged into the same bytes.

Shard i of n has the batches ⌊ib/n⌋ … ⌊(i+1)b/n⌋ − 1 of the b there are: whole batches, so that each
is computed as it would be without shards. A shard is an artifact of its own kind, which no stage
takes for features. It keeps the facts that ``features.h5`` is to have, in their order.
"""

import importlib.metadata
import json
import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from jaxtyping import Int16

from pfl.artifacts.hdf5 import Attribute, create, read, reading, reserve
from pfl.backbones.extraction.blocks import Block, read_blocks
from pfl.data.features.features import WRITE_ROWS, write_features
from pfl.errors import InputError

SCHEMA = "features-shard"
AGAIN = "extract all shards again with the same images, parameters and versions"


@dataclass(frozen=True)
class Shard:
    """Part ``number`` of ``count``."""

    number: int
    count: int

    def batches(self, total: int) -> range:
        """Which of ``total`` batches it has.

        Raises:
            InputError: there are not enough for each shard to have one.
        """
        if total < self.count > 1:
            raise InputError(
                f"There are {total} batches and {self.count} shards: take fewer shards, or a "
                "smaller extract.batch-size."
            )
        return range(total * self.number // self.count, total * (self.number + 1) // self.count)


def parse_shard(text: str) -> Shard:
    """``i/n`` as a shard.

    Raises:
        InputError: it is none.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or int(match[1]) >= int(match[2]):
        raise InputError(f"--shard is '{text}': write i/n with i from 0 to n − 1, as in 0/4.")
    return Shard(int(match[1]), int(match[2]))


def write_shard(
    path: Path,
    blocks: Sequence[Block],
    m: int,
    images: int,
    facts: dict[str, Attribute],
    packages: tuple[str, ...],
) -> None:
    """Store the rows of consecutive blocks, of m features for some of the n ``images`` in all.

    ``facts`` are attributes of the whole ``features.h5``, but for saturation; the versions of
    ``packages`` may change a feature.
    """
    start, stop = blocks[0].start, blocks[-1].stop
    attributes: dict[str, Attribute] = {
        "start": start,
        "images": images,
        "facts": json.dumps(facts),
        "packages": json.dumps(packages),
        "saturated": sum(block.saturated for block in blocks),
        "largest": max(block.largest for block in blocks),
    }
    with create(path, SCHEMA, attributes, packages) as file:
        stored = reserve(file, "feature", (stop - start, m), np.int16)
        for low in range(start, stop, WRITE_ROWS):
            high = min(low + WRITE_ROWS, stop)
            stored[low - start : high - start] = read_blocks(blocks, low, high)


def merge_shards(paths: Sequence[Path], out: Path) -> None:
    """Write ``features.h5`` from all its shards, in any order.

    Raises:
        InputError: one is missing, there twice, damaged, or made otherwise than the others.
    """
    with ExitStack() as stack:
        opened = [(path, stack.enter_context(reading(path, SCHEMA))) for path in paths]
        parts = sorted(opened, key=lambda part: int(part[1].attrs["start"]))
        images = _check_alike(parts)
        files = [file for _, file in parts]
        facts: dict[str, Attribute] = json.loads(files[0].attrs["facts"])
        packages = tuple(json.loads(files[0].attrs["packages"]))
        facts["saturated"] = sum(int(file.attrs["saturated"]) for file in files)
        facts["largest"] = max(float(file.attrs["largest"]) for file in files)
        shape = (images, int(files[0]["feature"].shape[1]))
        write_features(out, shape, lambda low, high: _rows(files, low, high), facts, packages)


def _check_alike(parts: Sequence[tuple[Path, h5py.File]]) -> int:
    """Number of images; all shards must be there, and made in the same way."""
    first, model = parts[0]
    expected = 0
    for path, file in parts:
        start, count = int(file.attrs["start"]), len(file["feature"])
        if start != expected:
            what = "are missing" if start > expected else "are there twice"
            low, high = sorted((start, expected))
            raise InputError(f"Images {low} to {high - 1} {what}: give each shard once.")
        expected += count
        for name in ("images", "facts", "packages"):
            if file.attrs[name] != model.attrs[name]:
                raise InputError(f"{path} was made otherwise than {first} ({name}): {AGAIN}.")
        _check_versions(path, file)
    images = int(model.attrs["images"])
    if expected != images:
        raise InputError(f"Images {expected} to {images - 1} are missing: give each shard once.")
    return images


def _check_versions(path: Path, file: h5py.File) -> None:
    """The merged file names this machine's versions, which must be the shard's."""
    for package in json.loads(file.attrs["packages"]):
        made, here = file.attrs[f"version-{package}"], importlib.metadata.version(package)
        if made != here:
            raise InputError(f"{path} was made with {package} {made}, here is {here}: {AGAIN}.")


def _rows(files: Sequence[h5py.File], low: int, high: int) -> Int16[np.ndarray, "b m"]:
    """Rows of images ``low`` to ``high - 1``."""
    parts = []
    for file in files:
        start = int(file.attrs["start"])
        first, last = max(low, start), min(high, start + len(file["feature"]))
        if first < last:
            parts.append(read(file, "feature", slice(first - start, last - start)))
    return np.concatenate(parts)
