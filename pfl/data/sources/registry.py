"""Sources of images: from a name in ``params.yaml`` to samples in memory or files to be read."""

from collections.abc import Callable
from enum import StrEnum
from functools import partial

from pfl.data.sources import digits, folder, npz, ratings, vision
from pfl.data.sources.samples import Samples, SourceRequest

Loader = Callable[[SourceRequest], Samples]
Finder = Callable[[SourceRequest], object]


def _anywhere(request: SourceRequest) -> None:
    """What is installed needs no finding."""


def _of(source: vision.Source) -> tuple[Loader, Finder]:
    return partial(vision.load, source), partial(vision.find, source)


class Dataset(StrEnum):
    """The table of sources: each member is a name together with what is known of it.

    Attributes:
        load: the function that loads it.
        locate: refuses at once, by an ``InputError``, what is not there; what is may be damaged.
        grouped: whether its samples may have groups of their own.
    """

    load: Loader
    locate: Finder
    grouped: bool

    def __new__(cls, name: str, load: Loader, locate: Finder, grouped: bool = False) -> "Dataset":
        """Make a member that equals its name and carries the rest."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.load, member.locate, member.grouped = load, locate, grouped
        return member

    DIGITS = "digits", digits.load, _anywhere
    CIFAR10 = "cifar10", *_of(vision.CIFAR10)
    CIFAR100 = "cifar100", *_of(vision.CIFAR100)
    FASHION_MNIST = "fashion-mnist", *_of(vision.FASHION_MNIST)
    MNIST = "mnist", *_of(vision.MNIST)
    SVHN = "svhn", *_of(vision.SVHN)
    FOLDER = "folder", folder.load, folder.find, True
    NPZ = "npz", npz.load, npz.find, True
    RATINGS = "ratings", ratings.load, ratings.find, True


def named(name: str) -> Dataset | None:
    """The data set of this name; None where there is none."""
    return next((dataset for dataset in Dataset if dataset == name), None)
