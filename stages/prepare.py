"""prepare: a data set, in whatever form, as ``images.h5`` and ``index.h5``."""

import logging
from pathlib import Path
from typing import Annotated

from typer import Option

from pfl.data.images.images import PixelArray
from pfl.data.sources.registry import Dataset
from pfl.data.sources.samples import (
    MissingImages,
    Samples,
    SourceRequest,
    TestImages,
    write_samples,
)
from pfl.data.sources.sites import Difference, SiteSettings, as_sites
from pfl.errors import InputError
from stages._run import LARGEST_SEED, finite, obeying, run

log = logging.getLogger(__name__)


def _share(test_fraction: float) -> None:
    if not test_fraction < 1:
        raise InputError(
            f"prepare.test-fraction is {test_fraction}, which leaves no training samples: choose "
            "one in [0, 1)."
        )


def prepare(
    dataset: Annotated[Dataset, Option(help="Which data set.")],
    path: Annotated[Path, Option(help="File or folder that it is read from.")],
    test_fraction: Annotated[
        float,
        Option(
            min=0.0,
            max=1.0,
            callback=obeying(_share),
            help="Share in [0, 1) cut off where no test split exists.",
        ),
    ],
    seed: Annotated[
        int, Option(min=0, max=LARGEST_SEED, help="Seed of that cut and of the sites.")
    ],
    images: Annotated[Path, Option(help="Output: every image.")],
    index: Annotated[Path, Option(help="Output: what is known of each sample.")],
    download: Annotated[
        bool, Option(help="Let torchvision download what is missing into the path.")
    ] = False,
    differ: Annotated[
        Difference, Option(help="How sites differ; sites are the groups of the data.")
    ] = Difference.NONE,
    strength: Annotated[
        float,
        Option(min=0.0, max=10.0, callback=finite, help="Of the difference; of labels, a share."),
    ] = 1.0,
    sites: Annotated[
        int, Option(min=1, help="How many, where sites differ and the data have no groups.")
    ] = 4,
    users: Annotated[
        int, Option(min=0, help="Of ratings: users with most ratings that stay; 0 for all.")
    ] = 0,
    test_images: Annotated[
        TestImages,
        Option(help="Of ratings: test images unseen by all users, or shared with others."),
    ] = TestImages.UNSEEN,
    missing_images: Annotated[
        MissingImages,
        Option(help="Of ratings: those of images that are not there are refused, or left out."),
    ] = MissingImages.REFUSE,
) -> None:
    """Read a data set and store its images, labels, splits and groups."""
    _share(test_fraction)
    settings = SiteSettings(differ, strength, sites, seed)
    loaded = dataset.load(
        SourceRequest(path, download, test_fraction, seed, users, test_images, missing_images)
    )
    samples, changed = as_sites(loaded, settings)
    write_samples(images, index, samples, dataset.value, changed, settings.facts())
    log.info("%s", summary(dataset.value, samples))


def summary(name: str, samples: Samples) -> str:
    """Say in one line what a data set holds."""
    index, images = samples.index, samples.images
    size = "encoded image files"
    if isinstance(images, PixelArray):
        _, height, width, channels = images.pixels.shape
        size = f"{height} × {width} pixels, {'grey' if channels == 1 else 'RGB'}"
    what = "images" if index.image is None else f"samples of {index.images:,} images"
    return (
        f"{name}: {index.train.sum():,} training and {index.test.sum():,} test {what} "
        f"({samples.attributes['test-split']} test split), {len(index.classes)} classes, "
        f"{len(index.groups)} group(s); {size}."
    )


if __name__ == "__main__":
    run(prepare, "images", "index")
