"""A tiny masked autoencoder and images to train it on, for tests."""

import torch

from pfl.backbones.mae.encoder import Architecture
from pfl.backbones.pretraining.model import Decoder, build_autoencoder
from pfl.backbones.pretraining.recipe import ImageSet, Recipe, begin
from pfl.data.tensors.pixels import pixel_view
from tests.nets import generator

ARCHITECTURE, DECODER = Architecture(8, 2, 8, 2, 2), Decoder(4, 1, 2)
RECIPE = Recipe(
    seed=3, epochs=3, warmup=1.0, batch=8, lr=0.05, weight_decay=0.05, mask_ratio=0.75,
    smallest_crop=0.3, ema=0.5, bf16=False,
)  # fmt: skip


def autoencoder(seed=0):
    return build_autoencoder(ARCHITECTURE, DECODER, generator(seed))


def learner(recipe=RECIPE, seed=0):
    return begin(autoencoder(seed), recipe)


def images(count=20, channels=3):
    """Random gradients: what is hidden can be guessed from what is seen."""
    corners = torch.rand(count, channels, 2, 2, generator=generator(1)) * 255
    smooth = torch.nn.functional.interpolate(corners, size=(8, 8), mode="bilinear")
    pixels = smooth.permute(0, 2, 3, 1).to(torch.uint8).contiguous()
    return ImageSet(pixels, pixel_view([pixels], augment=False))
