"""What every source returns, and how a test split is cut where a source has none."""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

import numpy as np
from jaxtyping import Int

from pfl.artifacts.files import replacing_all
from pfl.artifacts.hashing import recorded_sha256
from pfl.artifacts.hdf5 import Attribute
from pfl.data.images.images import ImageFiles, PixelArray, Sites, write_images
from pfl.data.samples.index import TEST, TRAIN, Index, write_index
from pfl.data.sources.names import check_names, some, warn_of_twins
from pfl.errors import InputError
from pfl.runtime.rounding import portion

log = logging.getLogger(__name__)
NO_GROUPS = ("all",)  # the one group of data that have none


class TestImages(StrEnum):
    """Where samples share images: who may train on an image that is another one's test image.

    A cut of whole images leaves them ``UNSEEN`` by everybody; a cut of each group's own samples
    leaves them ``SHARED``.
    """

    __test__ = False  # pytest: this is not a class of tests

    UNSEEN = "unseen"
    SHARED = "shared"


class MissingImages(StrEnum):
    """What becomes of labels of images that are not there."""

    REFUSE = "refuse"
    SKIP = "skip"


@dataclass(frozen=True)
class SourceRequest:
    """What a source is asked for.

    Attributes:
        path: file or folder that the data are read from.
        download: whether missing data may be downloaded into ``path``.
        test_fraction: share in [0, 1) cut off as test samples where the source has no test split.
        seed: of that cut.
        users: of ratings: how many users, those with most ratings, are kept; 0 for all.
        test_images: of ratings: what the test images have been to others.
        missing_images: of ratings: whether those of images that are not there may be left out.
        section: of ``params.yaml``, which the request came from, for messages.
    """

    path: Path
    download: bool
    test_fraction: float
    seed: int
    users: int = 0
    test_images: TestImages = TestImages.UNSEEN
    missing_images: MissingImages = MissingImages.REFUSE
    section: str = "prepare"


def folder_of(request: SourceRequest, wanted: str) -> Path:
    """The folder of a request, which must be there; ``wanted`` says which one it should be.

    Raises:
        InputError: it is not there.
    """
    if not request.path.is_dir():
        raise InputError(
            f"{request.path} is not a folder: set `{request.section}.path` to {wanted}."
        )
    return request.path


@dataclass(frozen=True)
class Samples:
    """Images and what is known of them, training samples first.

    Attributes:
        images: the images, in the order in which samples first need them.
        index: image, label, split and group of each sample.
        attributes: the parameters that the content depends on; those of a cut only where one was
            made, so that changing them leaves other data sets' artifacts as they are.
    """

    images: PixelArray | ImageFiles
    index: Index
    attributes: dict[str, Attribute]


def assemble(
    images: PixelArray | ImageFiles, index: Index, request: SourceRequest, *, cut: bool
) -> Samples:
    """Order samples training first, each split in source order; with ``cut``, make a test split.

    Images that no sample needs are left out.

    Raises:
        InputError: there are fewer than two classes, a name is no text, or the samples of a split
            are missing or such that no classifier can be trained or tested.
    """
    if len(index.classes) < 2:
        raise InputError(
            f"{request.path} holds {len(index.classes)} class(es), but a classifier needs at least "
            f"two: add other classes, or check that `{request.section}.path` names the level above "
            "the class folders or tables."
        )
    attributes: dict[str, Attribute] = {"test-split": "own"}
    if cut:
        split, how = _cut(index, request)
        index = replace(index, split=split)
        attributes = {
            "test-split": "cut",
            "test-fraction": request.test_fraction,
            "seed": request.seed,
            **how,
        }
    for names in (index.classes, index.groups):
        check_names(request.path, names)
        warn_of_twins(request.path, names)
    _check_splits(request, index, cut)
    return _ordered(images, index, attributes)


def write_samples(
    images: Path,
    index: Path,
    samples: Samples,
    dataset: str,
    sites: Sites | None = None,
    facts: Mapping[str, Attribute] = MappingProxyType({}),
) -> None:
    """Store samples as ``images.h5`` and ``index.h5``, the latter with ``facts`` of its own.

    With ``sites``, readers see each image as its site takes it.
    """
    attributes: dict[str, Attribute] = {"dataset": dataset, **samples.attributes}
    with replacing_all(images, index) as (images_part, index_part):
        write_images(images_part, samples.images, attributes, sites)
        listed = replace(samples.index, images_sha256=recorded_sha256(images_part, "images"))
        write_index(index_part, listed, {**attributes, **facts})


def _check_splits(request: SourceRequest, index: Index, cut: bool) -> None:
    """Refuse at once what could never be trained on, or never be evaluated."""
    path = request.path
    if not index.train.any():
        raise InputError(f"{path} has no training samples: add some, or a training split.")
    trained = np.unique(index.label[index.train])
    if len(trained) < 2:
        raise InputError(
            f"All training samples of {path} are of the class '{index.classes[trained[0]]}', but "
            "a classifier needs at least two: add training samples of other classes."
        )
    if not index.test.any():
        remedy = "fill its test split, or remove that, so that one is cut"
        if cut:
            remedy = _of_cut(request, index)
        raise InputError(f"{path} has no test samples, so nothing could be evaluated: {remedy}.")
    tested = np.unique(index.label[index.test])
    unknown = np.setdiff1d(tested, trained)
    if len(unknown) == len(tested):
        raise InputError(
            f"No test sample of {path} is of a class with training samples, so nothing could be "
            "evaluated: add test samples of the classes that are trained."
        )
    if len(unknown):
        log.warning(
            "%d class(es) of %s have test samples but no training samples, so that nobody can "
            "learn them: %s.", len(unknown), path, some([index.classes[c] for c in unknown]),
        )  # fmt: skip


def _of_cut(request: SourceRequest, index: Index) -> str:
    """What gives a cut its test samples: a stratum keeps one, and needs another to give."""
    strata = np.unique(index.group * len(index.classes) + index.label, return_counts=True)[1]
    whole = _shares_images(index) and request.test_images is TestImages.UNSEEN
    if not whole and strata.max() == 1:
        return "add samples, since each class of each group keeps one for training and has no other"
    return f"set {request.section}.test-fraction higher, or add samples"


def _ordered(
    images: PixelArray | ImageFiles, index: Index, attributes: dict[str, Attribute]
) -> Samples:
    order = np.argsort(index.split, kind="stable")
    used, image = first_uses(index.images_of(order))
    if not np.array_equal(used, np.arange(len(images))):
        images = images.take(used)
    index = replace(
        index,
        label=index.label[order],
        split=index.split[order],
        group=index.group[order],
        image=image if len(used) < len(order) else None,
    )
    return Samples(images, index, attributes)


def first_uses(
    image: Int[np.ndarray, " n"],
) -> tuple[Int[np.ndarray, " used"], Int[np.ndarray, " n"]]:
    """The images that occur, in the order of their first place, and each entry's among them."""
    used, first, number = np.unique(image, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return used[order], place[number]


def _cut(
    index: Index, request: SourceRequest
) -> tuple[Int[np.ndarray, " n"], dict[str, Attribute]]:
    """The split of each sample, and how it was cut, where there is a choice."""
    rng = np.random.default_rng(request.seed)
    if not _shares_images(index):
        return cut_test(index, request.test_fraction, rng), {}
    unseen = request.test_images is TestImages.UNSEEN
    cut = cut_images if unseen else cut_test
    return cut(index, request.test_fraction, rng), {"test-images": request.test_images.value}


def _shares_images(index: Index) -> bool:
    """Whether an image has several samples."""
    return index.images < len(index.label)


def cut_images(index: Index, fraction: float, rng: np.random.Generator) -> Int[np.ndarray, " n"]:
    """The split of each sample, with ⌊f·I + ½⌋ of the I images drawn for the test split."""
    images = index.images
    tested = np.zeros(images, bool)
    tested[rng.permutation(images)[: math.floor(portion(images, fraction) + 0.5)]] = True
    chosen = tested[index.images_of(np.arange(len(index.label)))]
    return np.where(chosen, TEST, TRAIN)


def cut_test(index: Index, fraction: float, rng: np.random.Generator) -> Int[np.ndarray, " n"]:
    r"""The split of each sample, test samples drawn at random within each stratum (group, class).

    Stratum s of n_s samples gives the rounded share

        t_s = min(⌊f·(n_1 + … + n_s) + ½⌋ − ⌊f·(n_1 + … + n_{s−1}) + ½⌋,  n_s − 1),

    so that shares of less than one sample add up over small strata, and each stratum keeps a
    training sample.
    """
    stratum = index.group.astype(np.int64) * len(index.classes) + index.label
    shuffled = rng.permutation(len(stratum))
    grouped = shuffled[np.argsort(stratum[shuffled], kind="stable")]
    sizes = np.unique(stratum, return_counts=True)[1]
    ends = np.cumsum(sizes)
    upto = [math.floor(portion(int(end), fraction) + 0.5) for end in (0, *ends)]
    share = np.minimum(np.diff(upto), sizes - 1)
    rank = np.arange(len(stratum)) - np.repeat(ends - sizes, sizes)
    split = np.zeros_like(index.split)
    split[grouped[rank < np.repeat(share, sizes)]] = TEST
    return split
