"""Backbones that need nothing from elsewhere: the pipeline's own encoder, pixels, a random one."""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from timm.layers.pos_embed import resample_abs_pos_embed
from torch import Tensor, nn

from pfl.backbones.mae.encoder import Architecture, build_encoder
from pfl.backbones.mae.encoder_file import load_encoder
from pfl.backbones.models.backbone import Backbone, frozen
from pfl.backbones.models.positions import interpolated
from pfl.backbones.models.transform import squares
from pfl.backbones.models.weights import find_weights
from pfl.errors import InputError, one_line
from pfl.runtime.scratch import file_sha256

log = logging.getLogger(__name__)
MAE, PIXELS = "mae", "raw-pixels"
PIXELS_SIZE = 32
HALF = (0.5, 0.5, 0.5)
ADVICE = (
    "Set extract.weights to the file that `pretrain` has made, such as "
    "data/pretrained/cifar100.safetensors; see docs/pretraining.md."
)


def masked_autoencoder(name: str, weights: Path, side: int | None, bound: float | None) -> Backbone:
    """The encoder that ``pretrain`` has made; the file says of itself what it is.

    Raises:
        InputError: there is no such file, it is of another kind, or patches do not tile the images.
    """
    path = find_weights(name, weights, [], ADVICE)
    stored = load_encoder(path)
    own, training = stored.architecture, stored.training
    shape = replace(own, image_size=side or own.image_size)
    module = build_encoder(shape)
    try:
        module.load_state_dict(_resampled(stored.weights, own, shape))
    except (RuntimeError, KeyError) as error:
        raise InputError(
            f"The weights in {path} do not fit the architecture that it names "
            f"({one_line(error, 300)}): run `dvc repro`, which makes it again."
        ) from error
    # As in pretraining.
    transform = squares(own.image_size, stored.mean, stored.std, side)
    described = (
        f"masked autoencoder, {shape.depth} blocks of {shape.width}, patches of "
        f"{shape.patch_size} px, {training['epochs']} epochs on {training['images']} images"
    )
    if shape.side != own.side:
        described += interpolated(own.image_size, shape.image_size)
    return frozen(name, module, transform, file_sha256(path), described, bound)


def _resampled(
    weights: Mapping[str, Tensor], own: Architecture, wanted: Architecture
) -> dict[str, Tensor]:
    """The weights, with position embeddings for images of another size."""
    if own.side == wanted.side:
        return dict(weights)
    places: Tensor = resample_abs_pos_embed(
        weights["pos_embed"], [wanted.side, wanted.side], num_prefix_tokens=0
    )
    return {**weights, "pos_embed": places}


def raw_pixels(name: str, weights: Path, side: int | None, bound: float | None) -> Backbone:
    """Every pixel as a feature, from −1 to 1: what a backbone has to beat."""
    del weights  # It has none.
    transform = squares(PIXELS_SIZE, HALF, HALF, side)
    digest = hashlib.sha256(b"").hexdigest()
    module = nn.Sequential(nn.Flatten())
    return frozen(name, module, transform, digest, "pixels", bound or 1.0)


def random_tiny(name: str, weights: Path, side: int | None, bound: float | None) -> Backbone:
    """Two convolutions with fixed random weights and m = 16, for fast tests only."""
    del weights  # It has none.
    log.warning("Backbone '%s' is random: for tests only, its accuracies mean nothing.", name)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.ReLU6(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ReLU6(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    generator, digest = torch.Generator().manual_seed(0), hashlib.sha256()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5, generator=generator)
        digest.update(parameter.detach().numpy().tobytes())
    transform = squares(PIXELS_SIZE, HALF, HALF, side)
    return frozen(name, model, transform, digest.hexdigest(), "random, for tests", bound)
