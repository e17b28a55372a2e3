"""Public data sets in torchvision's on-disk layout, downloaded by it or put there by the user.

CIFAR files are pickles; torchvision unpickles them only after their MD5 equals the official one,
and SVHN's ``.mat`` files likewise. The MNIST family are IDX files, which hold nothing but numbers.
"""

import gzip
import logging
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pfl.artifacts.files import replacing
from pfl.data.images.images import PixelArray
from pfl.data.samples.index import TEST, TRAIN, Index
from pfl.data.sources.links import check_links
from pfl.data.sources.samples import NO_GROUPS, Samples, SourceRequest, assemble
from pfl.errors import InputError, of_system, one_line

log = logging.getLogger(__name__)
IDX = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


@dataclass(frozen=True)
class Source:
    """One public data set.

    Attributes:
        name: its class in ``torchvision.datasets``.
        splits: what that class is told to get the training and the test split.
        pixels: from its ``data`` to (n, h, w, c).
        labels: the attribute with the labels.
        manual: what to put where, without a download; ``{path}`` stands for the folder.
        unpack: makes its files in the given folder from archives found there or installed.
        places: what of the folder is read or written, relative to it.
        classes: the class names, where the class itself has none.
        installed: where a package of the system may have put archives.
    """

    name: str
    splits: tuple[dict[str, Any], dict[str, Any]]
    pixels: Callable[[np.ndarray], np.ndarray]
    labels: str
    manual: str
    unpack: Callable[[Path], None]
    places: tuple[str, ...]
    classes: tuple[str, ...] = ()
    installed: tuple[Path, ...] = ()


def find(source: Source, request: SourceRequest) -> None:
    """Refuse a folder with nothing of the data set in it, unless that may be downloaded.

    Raises:
        InputError: it is one.
    """
    places = [*(request.path / place for place in source.places), *source.installed]
    if not request.download and not any(place.exists() for place in places):
        raise _missing(source, request, "none of its files is there")


def load(source: Source, request: SourceRequest) -> Samples:
    """Load both splits of a public data set.

    Raises:
        InputError: it is missing or damaged and may not, or could not, be downloaded, or a link
            among its files leads out of the folder.
    """
    check_links(request.path, source.places)
    source.unpack(request.path)
    parts = [_split(source, request, options) for options in source.splits]
    pixels = np.concatenate([source.pixels(np.asarray(part.data)) for part in parts])
    labels = [np.asarray(getattr(part, source.labels), np.int64) for part in parts]
    label = np.concatenate(labels)
    split = np.repeat((TRAIN, TEST), [len(part) for part in labels])
    classes = source.classes or tuple(parts[0].classes)
    _check(source, request.path, pixels, label, len(classes))
    index = Index(label, split, np.zeros_like(label), classes, NO_GROUPS)
    return assemble(PixelArray(pixels), index, request, cut=False)


def _split(source: Source, request: SourceRequest, options: dict[str, Any]) -> Any:
    # Imported here because it takes seconds, and other sources do without.
    import torchvision.datasets

    make = getattr(torchvision.datasets, source.name)
    try:
        return make(root=request.path, download=request.download, **options)
    except (OSError, RuntimeError, ValueError, TypeError, AssertionError, KeyError) as error:
        if of_system(error) and not isinstance(error, FileNotFoundError):
            raise
        detail = one_line(error)
        if request.download:
            manual = source.manual.format(path=request.path)
            raise InputError(
                f"{source.name} could neither be read from {request.path} nor downloaded "
                f"({detail}): check the connection, delete what is damaged, or {manual}."
            ) from error
        raise _missing(source, request, detail) from error


def _missing(source: Source, request: SourceRequest, detail: str) -> InputError:
    manual = source.manual.format(path=request.path)
    return InputError(
        f"{source.name} is missing or damaged in {request.path} ({detail}): set "
        f"`{request.section}.download: true` (flag --download), or {manual}, after deleting what "
        "is damaged."
    )


def _check(source: Source, path: Path, pixels: np.ndarray, label: np.ndarray, classes: int) -> None:
    if len(pixels) != len(label) or label.min() < 0 or label.max() >= classes:
        raise InputError(
            f"{source.name} in {path} is damaged: {len(pixels)} images, {len(label)} labels from "
            f"{label.min()} to {label.max()}. Delete it and get it again."
        )


def _unpack_archive(folder: Path, archive: str, md5: str, made: str) -> None:
    """Unpack an official archive lying in ``folder``, once, if it is the true one."""
    from torchvision.datasets.utils import check_integrity, extract_archive

    file = folder / archive
    if not file.is_file() or (folder / made).is_dir():
        return
    if not check_integrity(file, md5):
        raise InputError(
            f"{file} is not the official archive (its MD5 is not {md5}) or is incomplete: "
            "delete it and get it again."
        )
    log.info("Unpacking %s.", file)
    part = folder / f"{made}.part"
    shutil.rmtree(part, ignore_errors=True)
    extract_archive(file, part)
    (part / made).rename(folder / made)
    part.rmdir()


def _unzip_idx(folder: Path, name: str, installed: tuple[Path, ...]) -> None:
    """Unzip IDX files into torchvision's ``<name>/raw`` from there, ``folder`` or ``installed``."""
    raw = folder / name / "raw"
    for part in IDX:
        target = raw / part
        packed = [place / f"{target.name}.gz" for place in (raw, folder, *installed)]
        archive = next((file for file in packed if file.is_file()), None)
        if archive and not target.is_file():
            log.info("Unzipping %s into %s.", archive, raw)
            _unzip(archive, target)


def _unzip(packed: Path, target: Path) -> None:
    try:
        with replacing(target) as part, gzip.open(packed) as source, part.open("wb") as sink:
            shutil.copyfileobj(source, sink)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"{packed} is damaged or truncated ({error}): delete it and get it again."
        ) from error


def _cifar(name: str, archive: str, md5: str, made: str) -> Source:
    return Source(
        name=name,
        splits=({"train": True}, {"train": False}),
        pixels=lambda data: data,
        labels="targets",
        manual=f"put {archive} from https://www.cs.toronto.edu/~kriz/cifar.html into {{path}}",
        unpack=lambda folder: _unpack_archive(folder, archive, md5, made),
        places=(archive, made),
    )


def _idx(name: str, manual: str, installed: tuple[Path, ...] = ()) -> Source:
    return Source(
        name=name,
        splits=({"train": True}, {"train": False}),
        pixels=lambda data: data[..., None],
        labels="targets",
        manual=manual,
        unpack=lambda folder: _unzip_idx(folder, name, installed),
        places=tuple(
            place
            for part in IDX
            for place in (f"{name}/raw/{part}", f"{name}/raw/{part}.gz", f"{part}.gz")
        ),
        installed=installed,
    )


CIFAR10 = _cifar(
    "CIFAR10", "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a", "cifar-10-batches-py"
)
CIFAR100 = _cifar(
    "CIFAR100", "cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85", "cifar-100-python"
)
MNIST = _idx(
    "MNIST", "put the four files train-images-idx3-ubyte.gz … t10k-labels-idx1-ubyte.gz into {path}"
)
FASHION_MNIST = _idx(
    "FashionMNIST",
    "install Debian's package `dataset-fashion-mnist`, or put the four .gz files of "
    "https://github.com/zalandoresearch/fashion-mnist into {path}",
    installed=(Path("/usr/share/datasets/fashion-mnist"),),
)
SVHN = Source(
    name="SVHN",
    splits=({"split": "train"}, {"split": "test"}),
    pixels=lambda data: data.transpose(0, 2, 3, 1),
    labels="labels",
    manual="put train_32x32.mat and test_32x32.mat of http://ufldl.stanford.edu/housenumbers/ "
    "into {path}",
    unpack=lambda folder: None,
    places=("train_32x32.mat", "test_32x32.mat"),
    classes=tuple(str(digit) for digit in range(10)),
)
