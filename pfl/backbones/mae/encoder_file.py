"""A trained encoder on disk: its weights under timm's names, and how to build and feed it.

A safetensors file (:mod:`pfl.artifacts.tensors`) whose facts hold the architecture, the
normalization of pixels, and how it was trained.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from pfl.artifacts.tensors import BROKEN, load_tensors, save_tensors
from pfl.backbones.mae.encoder import Architecture
from pfl.errors import InputError, of_system

FORMAT = "masked-autoencoder-encoder/1"


@dataclass(frozen=True)
class Encoder:
    """What the file holds.

    Attributes:
        architecture: of the network.
        mean: per channel, of pixels scaled to 0 … 1.
        std: per channel, of the same.
        weights: by timm's names.
        training: how they came about.
    """

    architecture: Architecture
    mean: list[float]
    std: list[float]
    weights: Mapping[str, Tensor]
    training: Mapping[str, Any]


def save_encoder(path: Path, encoder: Encoder) -> None:
    """Store an encoder; equal content, equal bytes."""
    facts = {
        "format": FORMAT,
        "architecture": asdict(encoder.architecture),
        "mean": encoder.mean,
        "std": encoder.std,
        "training": dict(encoder.training),
    }
    save_tensors(path, encoder.weights, facts)


def load_encoder(path: Path) -> Encoder:
    """What :func:`save_encoder` stored.

    Raises:
        InputError: the file is missing, damaged or of another kind.
    """
    try:
        weights, facts = load_tensors(path)
        if facts.get("format") != FORMAT:
            raise ValueError(f"its format is '{facts.get('format')}', not '{FORMAT}'")
        return Encoder(
            architecture=Architecture(**facts["architecture"]),
            mean=facts["mean"],
            std=facts["std"],
            weights=weights,
            training=facts["training"],
        )
    except BROKEN as error:
        if of_system(error):
            raise
        raise InputError(
            f"{path} is no encoder that `pretrain` has made, or is damaged ({error}): set "
            "extract.weights to a file of data/pretrained, and run `dvc repro` to make it again."
        ) from error
