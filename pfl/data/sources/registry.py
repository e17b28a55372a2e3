"""Sources of images: from a name in ``params.yaml`` to samples in memory or files to be read."""

from collections.abc import Callable
from enum import StrEnum
from functools import partial

from pfl.data.sources import digits, folder, npz, ratings, vision
from pfl.data.sources.samples import Samples, SourceRequest

Loader = Callable[[SourceRequest], Samples]


class Dataset(StrEnum):
    """The table of sources: each member is a name together with the function that loads it."""

    load: Loader

    def __new__(cls, name: str, load: Loader) -> "Dataset":
        """Make a member that equals its name and carries its loader."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.load = load
        return member

    DIGITS = "digits", digits.load
    CIFAR10 = "cifar10", partial(vision.load, vision.CIFAR10)
    CIFAR100 = "cifar100", partial(vision.load, vision.CIFAR100)
    FASHION_MNIST = "fashion-mnist", partial(vision.load, vision.FASHION_MNIST)
    MNIST = "mnist", partial(vision.load, vision.MNIST)
    SVHN = "svhn", partial(vision.load, vision.SVHN)
    FOLDER = "folder", folder.load
    NPZ = "npz", npz.load
    RATINGS = "ratings", ratings.load
