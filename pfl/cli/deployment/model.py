"""The model that serves one client: the very backbone of its features, and one of its heads.

Images go through what ``extract`` did: the same weights, transform, precision, fixed point, and
batches of the same size, since a feature's last bits depend on the size of the batch that it is
computed in. So a prediction depends on the image alone, not on its company. The heads' view of the
features is applied to them.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int16, UInt8
from torch import Tensor

from pfl.artifacts.hdf5 import reading
from pfl.artifacts.project import Project
from pfl.backbones.models.backbone import Backbone
from pfl.backbones.models.families import load_backbone
from pfl.cli.deployment.head import CalibratedHead, load_head
from pfl.cli.deployment.prior import OWN, UNIFORM, with_prior
from pfl.data.client_features.clipping import Clip
from pfl.data.client_features.feature_map import FeatureMap
from pfl.data.client_features.random_projection import SignMap
from pfl.data.features.fixed_point import dequantize, quantize
from pfl.data.samples.index import read_index
from pfl.errors import InputError
from pfl.evaluation.metrics import HeadKind


@dataclass(frozen=True)
class Model:
    """From images to scores, with the head of one client.

    ``client`` is None for a new one, ``kind`` tells which head, and ``prior`` for which class
    shares its scores are, in a word or the name of a file.
    The backbone is on the CPU, gets ``batch`` images at a time and computes in the ``precision``
    ``fp32`` or ``bf16``. ``feature_step`` is of the fixed point that ``extract`` stores, and
    ``maps`` are those of the fixed-point features, in order.
    """

    backbone: Backbone
    feature_step: float
    maps: tuple[SignMap | Clip, ...]
    batch: int
    precision: str
    head: CalibratedHead
    classes: tuple[str, ...]
    client: int | None
    kind: HeadKind
    prior: str

    @property
    def whose(self) -> int | str:
        """The client's number, or what a new one is called."""
        return "new" if self.client is None else self.client

    @property
    def step(self) -> float:
        """What one unit of :meth:`rows` stands for."""
        return self.maps[-1].step if self.maps else self.feature_step

    def rows(self, pixels: UInt8[Tensor, "n 3 size size"]) -> Int16[np.ndarray, "n m"]:
        """Fixed-point features of at most ``batch`` resized images, as the heads see them.

        The batch is filled up with copies of the last image.
        """
        filled = torch.cat([pixels, pixels[-1:].expand(self.batch - len(pixels), -1, -1, -1)])
        filled = filled.contiguous(memory_format=torch.channels_last)
        features = self.backbone.features(filled, self.precision).numpy()[: len(pixels)]
        rows = quantize(features, self.feature_step).values
        for row_map in self.maps:
            rows, _ = row_map(rows)
        return rows

    def scores(self, pixels: UInt8[Tensor, "n 3 size size"]) -> Float[np.ndarray, "n d"]:
        """Class scores of at most ``batch`` resized images; their softmax are probabilities."""
        return self.head.scores(dequantize(self.rows(pixels), self.step))


def load_model(
    project: Project,
    client: int | None,
    kind: HeadKind,
    weights: Path | None,
    prior: str | None = None,
) -> Model:
    """The model of one client, or of a new one without samples, from the project's artifacts.

    Everything is looked at before the backbone, which takes the longest, is loaded.

    ``weights`` of the backbone are a file or a folder; None for those that params.yaml names.
    ``prior`` is a word or a file of :mod:`pfl.cli.deployment.prior`; None for the client's own, or
    even shares of a new client.

    Raises:
        InputError: an artifact is missing or does not go with another; there is no such client,
            head or prior; or the weights are not those that the features were computed with.
    """
    classes = read_index(project.artifact("index")).classes
    wanted = prior or (UNIFORM if client is None else OWN)
    if client is None and wanted == OWN:
        raise InputError(
            "A new client has no samples that tell its own class shares: take --prior uniform, "
            "em, or a file of shares."
        )
    head = load_head(project, client, kind)
    head, called = with_prior(head, kind, wanted, classes)
    path = project.artifact("features")
    with reading(path, "features") as file:
        facts = dict(file.attrs)
        width = int(file["feature"].shape[1])
    step = float(facts["step"])
    with reading(project.artifact("heads"), "heads") as file:
        maps = FeatureMap.of(file.attrs).maps(width, step)
    expected = maps[-1].m if maps else width, len(classes)
    if head.weight.shape != expected:
        found = head.weight.shape
        raise InputError(
            f"The head has {found[0]} features and {found[1]} classes, but {path} and "
            f"the index {expected[0]} and {expected[1]}: run `dvc repro`, which makes all anew."
        )
    backbone = _backbone(path, facts, weights or project.weights)
    batch, precision = int(facts["batch-size"]), str(facts["precision"])
    return Model(backbone, step, maps, batch, precision, head, classes, client, kind, called)


def _backbone(path: Path, facts: dict[str, Any], weights: Path) -> Backbone:
    """The backbone that made the features of ``path``, by what they record of it."""
    logging.getLogger("timm").setLevel(logging.WARNING)
    size, bound = int(facts["image-size"]), float(facts["feature-range"])
    loaded = load_backbone(str(facts["backbone"]), weights, size, bound)
    if loaded.weights_sha256 != facts["weights-sha256"]:
        raise InputError(
            f"The weights of {loaded.name} from {weights} have the SHA-256 "
            f"{loaded.weights_sha256[:8]}…, but {path} was made with others "
            f"({str(facts['weights-sha256'])[:8]}…): name those with --weights, or run `dvc repro`."
        )
    if str(loaded.transform) != facts["transform"]:
        raise InputError(
            f"{loaded.name} now wants images as: {loaded.transform}. But {path} was made with: "
            f"{facts['transform']}. Install timm {facts.get('version-timm')}, or run `dvc repro`."
        )
    return loaded
