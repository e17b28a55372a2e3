"""Data of one place as those of several sites, which differ in their pictures or in their labels.

Sites are the natural groups where the data have some; else samples are spread over sites at random.
Groups become clients by the scheme ``natural``, one or several clients each, and any of them can be
held out as an external test.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from jaxtyping import Int

from pfl.artifacts.hdf5 import Attribute
from pfl.data.images.images import Sites
from pfl.data.images.site_shift import Kind, Skew
from pfl.data.samples.index import Index
from pfl.data.sources.samples import NO_GROUPS, Samples
from pfl.errors import InputError


class Difference(StrEnum):
    """How sites differ: in nothing, in their pictures (feature skew), in labels (concept shift)."""

    NONE = "none"
    STAIN = "stain"
    COLOR = "color"
    BLUR = "blur"
    ROTATION = "rotation"
    LABELS = "labels"


@dataclass(frozen=True)
class SiteSettings:
    """The parameters of the sites.

    Attributes:
        differ: in what.
        strength: of the change of pictures, see :class:`pfl.data.images.site_shift.Skew`; of
            ``labels``, the share of the classes that change names, in 0 … 1.
        count: how many sites, where the data have no groups.
        seed: of who is where, and of each site's own change.

    Raises:
        InputError: the strength is no share, where labels differ.
    """

    differ: Difference
    strength: float
    count: int
    seed: int

    def __post_init__(self) -> None:
        """Check the strength."""
        if self.differ is Difference.LABELS and self.strength > 1:
            raise InputError(
                f"prepare.strength is {self.strength:g}, but where labels differ it is the share "
                "of the classes that change names: choose one in [0, 1]."
            )

    def facts(self) -> dict[str, Attribute]:
        """What the index depends on beside the data."""
        if self.differ is Difference.NONE:
            return {}
        return {"differ": self.differ.value, "strength": self.strength, "sites": self.count,
                "sites-seed": self.seed}  # fmt: skip


def as_sites(samples: Samples, settings: SiteSettings) -> tuple[Samples, Sites | None]:
    """The samples with their sites as groups, and how to change the pictures, if at all.

    Site 0 is left as it is. Labels that differ leave the images, and so all features, as they are.

    Raises:
        InputError: the settings do not fit the data.
    """
    if settings.differ is Difference.NONE:
        return samples, None
    spread, relabelled = np.random.SeedSequence(settings.seed).spawn(2)
    index = _grouped(samples.index, settings.count, np.random.default_rng(spread))
    sites = None
    if settings.differ is Difference.LABELS:
        rng = np.random.default_rng(relabelled)
        index = replace(index, label=_relabelled(index, settings.strength, rng))
    else:
        kind = Kind(settings.differ.value)
        skew = Skew(kind, settings.strength, len(index.groups), settings.seed)
        sites = Sites(_takers(index), skew)
    return replace(samples, index=index), sites


def _grouped(index: Index, count: int, rng: np.random.Generator) -> Index:
    """Spread each class of each split evenly over the sites, at random."""
    if index.groups != NO_GROUPS:
        return index
    smallest = min(index.train.sum(), index.test.sum())
    if smallest < 2:
        raise InputError(
            f"The smaller split has {smallest} sample(s), and every site needs some of both: add "
            "data, or set prepare.differ to none."
        )
    if not 2 <= count <= smallest:
        raise InputError(
            f"prepare.sites is {count}: choose 2 or more, and at most {smallest}, the samples of "
            "the smaller split, so that each site has some of both."
        )
    order = rng.permutation(len(index.label))
    order = order[np.lexsort((index.label[order], index.split[order]))]
    group = np.empty(len(order), np.int64)
    group[order] = np.arange(len(order)) % count
    width = len(str(count - 1))
    names = tuple(f"site {site:0{width}d}" for site in range(count))
    return replace(index, group=group, groups=names)


def _takers(index: Index) -> Int[np.ndarray, " images"]:
    """The site that took each image.

    Raises:
        InputError: sites share an image.
    """
    images = index.images_of(np.arange(len(index.label)))
    taker = np.empty(index.images, index.group.dtype)
    taker[images] = index.group
    if not np.array_equal(taker[images], index.group):
        raise InputError(
            "Several groups have a label of the same image, so that its picture cannot differ "
            "between them: set prepare.differ to none or labels."
        )
    return taker


def _relabelled(index: Index, strength: float, rng: np.random.Generator) -> Int[np.ndarray, " n"]:
    """Labels by each site's own names: some classes change places in a cycle."""
    classes = len(index.classes)
    moved = round(strength * classes)
    names = np.tile(np.arange(classes), (len(index.groups), 1))
    for site in range(1, len(names)):
        chosen = rng.permutation(classes)[:moved]
        names[site, chosen] = np.roll(chosen, 1)
    return names[index.group, index.label]
