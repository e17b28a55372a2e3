"""public: a public data set to pretrain on, without the images that the clients have too."""

import logging
from pathlib import Path
from typing import Annotated

from typer import Option

from pfl.data.images.images import open_images
from pfl.data.sources.public import load_public, public_source, without_clients
from pfl.data.sources.samples import SourceRequest, write_samples
from pfl.errors import InputError
from stages._run import LARGEST_SEED, obeying, run

log = logging.getLogger(__name__)


def _share(test_fraction: float) -> None:
    if not test_fraction < 1:
        raise InputError(
            f"public.test-fraction is {test_fraction}, which leaves no images to train on: choose "
            "one in [0, 1)."
        )


def public(
    dataset: Annotated[
        str,
        Option(
            callback=obeying(public_source),
            help="A data set that prepare knows, or unlabelled: any image files.",
        ),
    ],
    path: Annotated[Path, Option(help="File or folder that it is read from.")],
    download: Annotated[
        bool, Option(help="Let torchvision download what is missing into the path.")
    ],
    test_fraction: Annotated[
        float,
        Option(
            min=0.0,
            max=1.0,
            callback=obeying(_share),
            help="Share in [0, 1) kept for the probe, without a split.",
        ),
    ],
    seed: Annotated[int, Option(min=0, max=LARGEST_SEED, help="Seed of that cut.")],
    clients_images: Annotated[Path, Option(help="The artifact images.h5, of the clients.")],
    images: Annotated[Path, Option(help="Output: every public image.")],
    index: Annotated[Path, Option(help="Output: label and split of each.")],
) -> None:
    """Read public images, leave out those that the clients have too, and store the rest."""
    _share(test_fraction)
    request = SourceRequest(path, download, test_fraction, seed, section="public")
    loaded = load_public(dataset, request)
    with open_images(clients_images) as clients:
        samples = without_clients(loaded, clients)
    write_samples(images, index, samples, dataset)
    listing = samples.index
    log.info(
        "%s: %s public images to train on, %s for the probe.",
        dataset, f"{listing.train.sum():,}", f"{listing.test.sum():,}",
    )  # fmt: skip


if __name__ == "__main__":
    run(public, "images", "index")
