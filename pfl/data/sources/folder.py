"""Folders of image files, where the folders' names are splits, domains and classes.

Layouts, told apart by the names at the top and by the depth of the files:

    <class>/*    <domain>/<class>/*    <split>/<class>/*    <split>/<domain>/<class>/*

A domain becomes the sample's group. ``val`` is the test split where there is no ``test``; else its
samples join the training split, because nothing here is tuned on a validation split.
"""

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pfl.data.images.images import ImageFiles
from pfl.data.samples.index import TEST, TRAIN, Index
from pfl.data.sources.files import walk
from pfl.data.sources.names import some
from pfl.data.sources.samples import NO_GROUPS, Samples, SourceRequest, assemble, folder_of
from pfl.errors import InputError
from pfl.runtime.spelling import united

log = logging.getLogger(__name__)

SPLITS = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "val": "val",
    "valid": "val",
    "validation": "val",
}
LAYOUTS = "<class>/*, <domain>/<class>/*, <split>/<class>/* or <split>/<domain>/<class>/*"
DEEPEST = 4  # parts of the longest layout


@dataclass(frozen=True)
class _File:
    name: str
    split: str  # "train", "test", "val", or "" where the layout has no splits
    domain: str
    label: str


def load(request: SourceRequest) -> Samples:
    """Load an image folder; its files are only named here, and read by ``write_images``.

    Raises:
        InputError: the folder is missing, empty or in none of the layouts, or a link leads out.
    """
    root = find(request)
    files = _parse(root, walk(root, DEEPEST, LAYOUTS))
    split = _numbered_splits(root, [file.split for file in files])
    label, classes = _numbered([file.label for file in files])
    group, groups = _numbered([file.domain for file in files])
    index = Index(label, split, group, classes, groups)
    images = ImageFiles(root, tuple(file.name for file in files))
    return assemble(images, index, request, cut=not index.test.any())


def find(request: SourceRequest) -> Path:
    """The folder.

    Raises:
        InputError: it is not there.
    """
    return folder_of(request, f"the one that holds your images as {LAYOUTS}")


def _parse(root: Path, names: list[str]) -> list[_File]:
    loose = [name for name in names if "/" not in name]
    paths = [name.split("/") for name in names if "/" in name]
    if not paths:
        raise InputError(
            f"{root} holds no class folders with files: images must lie in it as {LAYOUTS}."
        )
    if loose:
        log.warning("Skipped %d file(s) directly in %s: %s.", len(loose), root, some(loose))
    splits = _has_splits(root, [path[0] for path in paths])
    _check_depth(root, paths, 3 if splits else 2)
    return [_file(path, splits) for path in paths]


def _has_splits(root: Path, tops: list[str]) -> bool:
    named = sorted({top for top in tops if top.lower() in SPLITS})
    others = sorted(set(tops) - set(named))
    if named and others:
        raise InputError(
            f"{root} holds folders named like splits ({some(named)}) beside others "
            f"({some(others)}): move the others elsewhere, or rename the former if they are "
            "classes or domains."
        )
    return bool(named)


def _check_depth(root: Path, paths: list[list[str]], plain: int) -> None:
    """All files must lie equally deep, in class folders or in those of one more level."""
    depths = {len(path): "/".join(path) for path in reversed(paths)}
    for depth, example in depths.items():
        if depth not in (plain, plain + 1):
            raise InputError(
                f"{root / example} lies outside the layouts {LAYOUTS}: move or remove it."
            )
    if len(depths) > 1:
        raise InputError(
            f"{root / depths[plain]} and {root / depths[plain + 1]} lie at different depths: use "
            f"one of the layouts {LAYOUTS} for all files."
        )


def _file(path: list[str], splits: bool) -> _File:
    split = SPLITS[path[0].lower()] if splits else ""
    folders = path[1:-1] if splits else path[:-1]
    domain = folders[0] if len(folders) == 2 else NO_GROUPS[0]
    return _File("/".join(path), split, domain, folders[-1])


def _numbered_splits(root: Path, splits: list[str]) -> np.ndarray:
    present = set(splits)
    held_out = "test" if "test" in present else "val"
    if "val" in present:
        role = "joins the training split" if held_out == "test" else "serves as the test split"
        log.info("The validation split of %s %s.", root, role)
    return np.array([TEST if split == held_out else TRAIN for split in splits], np.int64)


def _numbered(names: list[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Number names in code-point order, which no locale changes.

    Folders of one name, whichever way their accents are stored, are one class or domain.
    """
    names = united(names)
    distinct = tuple(sorted(set(names)))
    number = {name: i for i, name in enumerate(distinct)}
    return np.array([number[name] for name in names], np.int64), distinct
