"""The encoder: a vision transformer of timm, with fixed positions and mean pooling.

Positions are sines and cosines of a patch's row and column, as in arXiv 2111.06377, which need no
training and exist for images of any size. There is no class token: a masked autoencoder gives it
nothing to learn, and features are the mean over all patches' outputs after the last normalization.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from timm.layers.pos_embed_sincos import build_sincos2d_pos_embed
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from pfl.errors import InputError

CHANNELS = 3


@dataclass(frozen=True)
class Architecture:
    """What an encoder is built by.

    Attributes:
        image_size: side of the images, pixels.
        patch_size: side of a patch, pixels.
        width: numbers per patch, the features m.
        depth: transformer blocks.
        heads: attention heads in each block.
    """

    image_size: int
    patch_size: int
    width: int
    depth: int
    heads: int

    def __post_init__(self) -> None:
        """Check what the parts ask of each other.

        Raises:
            InputError: sizes do not divide.
        """
        check_sides(self.image_size, self.patch_size)
        check_width(self.width, self.heads, "width", "heads")

    @property
    def side(self) -> int:
        """Patches along one side."""
        return self.image_size // self.patch_size

    @property
    def tokens(self) -> int:
        """Patches of an image."""
        return self.side**2


def check_sides(image: int, patch: int) -> None:
    """Refuse images that patches do not tile into at least 2 × 2."""
    if image % patch or image < 2 * patch:
        raise InputError(
            f"Images of {image} pixels are not tiled by 2 × 2 or more patches of {patch} pixels: "
            f"set image-size to a multiple of {patch}, from {2 * patch} on."
        )


def check_width(width: int, heads: int, name: str, of: str) -> None:
    """Refuse widths that heads do not divide, or that positions, in fours, do not fill."""
    if width % heads or width % 4:
        raise InputError(
            f"pretrain.{name} is {width}, which must be a multiple of 4 and of pretrain.{of}, "
            f"{heads}."
        )


def build_encoder(architecture: Architecture) -> VisionTransformer:
    """The network, all weights but the positions yet to be filled in; images → (b, width)."""
    with torch.device("meta"):  # no draw from the global generator
        encoder = VisionTransformer(
            img_size=architecture.image_size,
            patch_size=architecture.patch_size,
            in_chans=CHANNELS,
            num_classes=0,
            global_pool="avg",
            embed_dim=architecture.width,
            depth=architecture.depth,
            num_heads=architecture.heads,
            class_token=False,
            fc_norm=False,
            weight_init="skip",
        )
    encoder = encoder.to_empty(device="cpu")
    places = positions(architecture.side, architecture.width)
    encoder.pos_embed = nn.Parameter(places, requires_grad=False)
    return encoder


def positions(side: int, width: int) -> Float[Tensor, "1 l width"]:
    """Sines and cosines of the places of ``side`` × ``side`` patches, row by row."""
    embedded: Tensor = build_sincos2d_pos_embed([side, side], width)
    return embedded[None]
