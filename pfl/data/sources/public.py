"""Public images: any data set of the pipeline, or any folder of image files without labels.

The training samples are what a backbone is trained on, without their labels. The test samples stay
out of training; with their labels they tell how good features are while it goes on.
"""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np

from pfl.data.images.images import ImageFiles, Images
from pfl.data.samples.index import TRAIN, Index
from pfl.data.sources.duplicates import absent, hashes_of_artifact, hashes_of_source
from pfl.data.sources.files import walk
from pfl.data.sources.registry import Dataset, named
from pfl.data.sources.samples import NO_GROUPS, Samples, SourceRequest
from pfl.errors import InputError

log = logging.getLogger(__name__)
UNLABELLED = "unlabelled"
DEEPEST, LAYOUT = 8, "folders of any names, at most seven deep"


def load_public(name: str, request: SourceRequest) -> Samples:
    """The data set ``name``, or with ``unlabelled`` every file below ``request.path``.

    Raises:
        InputError: there is no such data set, or it cannot be used.
    """
    dataset = public_source(name)
    if dataset is None:
        return _unlabelled(request)
    public = dataset.load(request)
    if public.index.image is not None:
        raise InputError(
            f"The images of '{name}' have several labels each, and pretraining wants none: set "
            f"pretraining.datasets to [{UNLABELLED}], which takes every image below public.path."
        )
    return public


def public_source(name: str) -> Dataset | None:
    """The data set of this name; None for ``unlabelled``.

    Raises:
        InputError: there is none.
    """
    if name == UNLABELLED:
        return None
    dataset = named(name)
    if dataset is None:
        raise InputError(
            f"pretraining.datasets names '{name}': choose {UNLABELLED}, or one of "
            f"{', '.join(Dataset)}."
        )
    return dataset


def find_public(name: str, request: SourceRequest) -> Path:
    """Where the data set ``name`` is, or the images without labels.

    Raises:
        InputError: there is no such data set, or it is not there.
    """
    dataset = public_source(name)
    if dataset is not None:
        dataset.locate(request)
    elif not request.path.is_dir():
        raise InputError(
            f"{request.path} is not a folder: set public.path to the one that holds your images."
        )
    return request.path


def _unlabelled(request: SourceRequest) -> Samples:
    root = find_public(UNLABELLED, request)
    names = tuple(walk(root, DEEPEST, LAYOUT))
    none = np.zeros(len(names), np.int64)
    index = Index(none, none + TRAIN, none, (UNLABELLED,), NO_GROUPS)
    return Samples(ImageFiles(root, names), index, {"test-split": "none"})


def without_clients(public: Samples, clients: Images) -> Samples:
    """The public samples whose images the clients do not have, as training or test samples.

    Raises:
        InputError: no training image is left.
    """
    kept = absent(hashes_of_source(public.images), hashes_of_artifact(clients))
    index, total = public.index, len(kept)
    train = int((kept & index.train).sum())
    log.info(
        "%s of %s public images are images of the clients too, and are left out.",
        f"{total - kept.sum():,}", f"{total:,}",
    )  # fmt: skip
    if not train:
        raise InputError(
            f"None of {total:,} public images is left to train on: give public.path other images "
            "than the clients'."
        )
    chosen = np.flatnonzero(kept)
    index = replace(
        index, label=index.label[kept], split=index.split[kept], group=index.group[kept]
    )
    removed = {"left-out": total - len(chosen)}
    return Samples(public.images.take(chosen), index, public.attributes | removed)
