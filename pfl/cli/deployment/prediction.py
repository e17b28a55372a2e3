"""Classes of images, with scores, by the model of one client.

Scores are those of the client's calibrated head (:mod:`pfl.cli.deployment.head`): log-probabilities
but for a constant of each image, so that probabilities are their softmax.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from pfl.artifacts.hashing import unusable_file
from pfl.cli.deployment.model import Model
from pfl.data.images.decoding import decode
from pfl.data.sources.files import is_litter
from pfl.errors import InputError, trouble
from pfl.evaluation.reliability.sums import log_probabilities
from pfl.runtime.machine import cores
from pfl.runtime.parallel import in_order
from pfl.runtime.progress import progress


@dataclass(frozen=True)
class Prediction:
    """Scores of each class for the image of a path, or a sentence why there are none."""

    image: str
    scores: Float[np.ndarray, " d"]
    error: str = ""

    @property
    def order(self) -> Int[np.ndarray, " d"]:
        """Class numbers, the likeliest first; of equal ones the lower number."""
        return np.argsort(-self.scores, kind="stable")

    @cached_property
    def probabilities(self) -> Float[np.ndarray, " d"]:
        """The softmax of the scores."""
        return np.exp(log_probabilities(self.scores[None]))[0]


def find_images(places: Iterable[Path]) -> list[Path]:
    """The files named, and all files of the folders named and below, but for what systems leave.

    Raises:
        InputError: there is nothing of a name, or a folder has no files.
    """
    files: list[Path] = []
    for place in places:
        if not place.exists():
            raise InputError(f"There is no {place}: name image files, or folders of them.")
        inside = _inside(place) if place.is_dir() else [place]
        if not inside:
            raise InputError(f"{place} has no files: name a folder with images.")
        files += inside
    return files


def _inside(folder: Path) -> list[Path]:
    files = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not is_litter(name))
        files += [Path(root) / name for name in sorted(names) if not is_litter(name)]
    return files


def predict_images(model: Model, images: Sequence[Path]) -> Iterator[Prediction]:
    """Yield the prediction of each image, in order; one that cannot be read does not stop it.

    Batches are computed by one thread each, as in ``extract``, so that the bits are the same.
    """
    torch.set_num_threads(1)
    parts = [images[i : i + model.batch] for i in range(0, len(images), model.batch)]
    done = in_order(lambda part: _predict(model, part), parts, cores())
    for part in progress(done, len(images), "image", "Predicting", step=model.batch):
        yield from part


def _predict(model: Model, part: Sequence[Path]) -> list[Prediction]:
    opened = [_pixels(model, path) for path in part]
    pixels = [image for image in opened if isinstance(image, Tensor)]
    rows = iter(model.scores(torch.cat(pixels)) if pixels else ())
    return [
        Prediction(str(path), np.empty(0), image)
        if isinstance(image, str)
        else Prediction(str(path), next(rows))
        for path, image in zip(part, opened, strict=True)
    ]


def _pixels(model: Model, path: Path) -> UInt8[Tensor, "1 3 size size"] | str:
    """The image as the backbone wants it, or the reason why there is none."""
    if path.exists() and not path.is_file():  # Reading a pipe could wait for ever.
        return str(unusable_file(path))
    try:
        return model.backbone.transform.pixels([decode(path.read_bytes(), str(path))])
    except InputError as error:
        return str(error)
    except OSError as error:
        sentence = trouble(error)
        if sentence is None:
            raise
        return f"{sentence}."
