"""Whether the disk has room for what the parameters ask for: a lower bound, where one is known."""

import os
import shutil
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import h5py

from pfl.errors import InputError

MOST_FILES = 20_000  # whose sizes are added; a folder of more is taken for as large as those
COPIES = 2  # the artifact, and DVC's copy in its cache
SMALLEST = 4  # bytes of a sum of products, packed in as few as hold it
GIB = 2**30


def check_space(values: Mapping[str, Any], root: Path) -> None:
    """Refuse a run that cannot fit on the disk.

    What is known before it: the data are stored again, as images, and each of K clients' uploads
    has m(m + 1)/2 sums. m is that of the view of the features, or of features made before.

    Raises:
        InputError: less is free.
    """
    clients = int(values["partition"]["clients"])
    images = _size(root / values["prepare"]["path"])
    uploads = clients * packed_bytes(_features(values["features"], root))
    need = COPIES * (images + uploads)
    # What an earlier run has made is replaced, but DVC keeps it in its cache.
    free = shutil.disk_usage(root).free
    if need > free:
        raise InputError(
            f"The data and the uploads of partition.clients = {clients} take {need / GIB:.3g} GiB "
            f"at least, with DVC's copies, and {free / GIB:.3g} GiB are free: free some space, for "
            "instance by `dvc gc --workspace`, set features.project, or lower partition.clients."
        )


def packed_bytes(m: int) -> int:
    """The least that a client's Gram matrix of m features takes."""
    return SMALLEST * m * (m + 1) // 2


def _features(section: Mapping[str, Any], root: Path) -> int:
    """How many features a client sums up; 0 where nothing tells yet."""
    wanted = int(section["lift"]) or int(section["project"])
    if wanted:
        return wanted
    try:
        with h5py.File(root / "data" / "features.h5") as file:
            return int(file["feature"].shape[1])
    except (OSError, KeyError, AttributeError, IndexError):
        return 0


def _size(path: Path) -> int:
    """Bytes of a file, or of the files in a folder, as far as they are counted."""
    if path.is_file():
        return path.stat().st_size
    files = (Path(where) / name for where, _, names in os.walk(path) for name in names)
    return sum(file.stat().st_size for file in islice(files, MOST_FILES) if file.is_file())
