"""The masked autoencoder of He et al., arXiv 2111.06377.

The encoder sees the visible patches alone, a quarter of them by default: it never computes on what
is hidden, which makes training three to four times faster than on whole images. A light decoder
gets its outputs at their places and one learned vector, the mask token, everywhere else, and
predicts the pixels of every patch. After training it is dropped.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from timm.models.vision_transformer import Block
from torch import Tensor, nn
from torch.nn import functional as F

from pfl.backbones.mae.encoder import CHANNELS, Architecture, build_encoder, check_width, positions

SPREAD = 0.02  # standard deviation of the initial mask token


@dataclass(frozen=True)
class Decoder:
    """What a decoder is built by: numbers per patch, blocks, attention heads."""

    width: int
    depth: int
    heads: int

    def __post_init__(self) -> None:
        """Check that heads divide the width.

        Raises:
            InputError: they do not.
        """
        check_width(self.width, self.heads, "decoder-width", "decoder-heads")


class MaskedAutoencoder(nn.Module):
    """Predicts all patches of images from a few of them."""

    def __init__(self, architecture: Architecture, decoder: Decoder) -> None:
        super().__init__()
        self.architecture = architecture
        self.encoder = build_encoder(architecture)
        self.bridge = nn.Linear(architecture.width, decoder.width)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, decoder.width))
        self.blocks = nn.ModuleList(
            [Block(decoder.width, decoder.heads, qkv_bias=True) for _ in range(decoder.depth)]
        )
        self.norm = nn.LayerNorm(decoder.width, eps=1e-6)
        self.pixels = nn.Linear(decoder.width, CHANNELS * architecture.patch_size**2)
        self.places: Tensor
        fixed = positions(architecture.side, decoder.width)
        self.register_buffer("places", fixed, persistent=False)

    def forward(
        self, patches: Float[Tensor, "b l d"], visible: Int[Tensor, "b v"]
    ) -> Float[Tensor, "b l d"]:
        """Predicted targets of all patches, from those whose numbers are ``visible``."""
        return self.decode(self.encode(patches, visible), visible)

    def encode(
        self, patches: Float[Tensor, "b l d"], visible: Int[Tensor, "b v"]
    ) -> Float[Tensor, "b v width"]:
        """The encoder's outputs at the visible patches; the others are never looked at."""
        encoder, kernel = self.encoder, self.encoder.patch_embed.proj
        seen = patches.gather(1, visible[:, :, None].expand(-1, -1, patches.shape[2]))
        embedded = F.linear(seen, kernel.weight.flatten(1), kernel.bias)
        tokens = embedded + encoder.get_parameter("pos_embed")[0][visible]
        for block in encoder.blocks:
            tokens = block(tokens)
        return encoder.norm(tokens)

    def decode(
        self, outputs: Float[Tensor, "b v width"], visible: Int[Tensor, "b v"]
    ) -> Float[Tensor, "b l d"]:
        """Predicted targets of all patches, from the encoder's outputs."""
        known = self.bridge(outputs).float()
        tokens = self.mask_token.expand(len(known), self.architecture.tokens, -1)
        places = visible[:, :, None].expand(-1, -1, known.shape[2])
        tokens = tokens.scatter(1, places, known) + self.places
        for block in self.blocks:
            tokens = block(tokens)
        return self.pixels(self.norm(tokens))


def build_autoencoder(
    architecture: Architecture, decoder: Decoder, generator: torch.Generator
) -> MaskedAutoencoder:
    """A new autoencoder, all weights of which come from ``generator``.

    Matrices are uniform as Glorot & Bengio (2010) have it and biases 0, as in the paper's
    appendix A.1.
    """
    with torch.random.fork_rng(devices=[]):  # layers draw weights by themselves, in vain
        model = MaskedAutoencoder(architecture, decoder)
    for module in model.modules():
        _initialize(module, generator)
    nn.init.normal_(model.mask_token, std=SPREAD, generator=generator)
    return model


def _initialize(module: nn.Module, generator: torch.Generator) -> None:
    if isinstance(module, nn.Linear | nn.Conv2d):
        with torch.no_grad():  # the patch embedding is a matrix too
            nn.init.xavier_uniform_(module.weight.view(len(module.weight), -1), generator=generator)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.LayerNorm):
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)
