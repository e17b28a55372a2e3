"""Which patches the encoder sees: a random few, the same number of each image."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pfl.errors import InputError
from pfl.runtime.rounding import portion


def visible_count(tokens: int, ratio: float) -> int:
    """How many of ``tokens`` patches stay visible when a share ``ratio`` is hidden.

    Raises:
        InputError: none would stay, or all would.
    """
    visible = round(portion(tokens, 1 - ratio))
    if not 0 < visible < tokens:
        raise InputError(
            f"pretrain.mask-ratio {ratio:g} of {tokens} patches leaves {visible} to the encoder, "
            "which must see some and not all: choose a ratio between 0 and 1, such as 0.75."
        )
    return visible


def draw_visible(
    images: int, tokens: int, visible: int, generator: torch.Generator
) -> Int[Tensor, "b v"]:
    """The numbers of ``visible`` of ``tokens`` patches, ascending; every such set is as likely.

    Each image's are drawn independently of the others'.
    """
    order = torch.rand(images, tokens, generator=generator).argsort(dim=1)
    return order[:, :visible].sort(dim=1).values


def hidden_patches(visible: Int[Tensor, "b v"], tokens: int) -> Bool[Tensor, "b l"]:
    """Whether each patch is hidden."""
    hidden = torch.ones(len(visible), tokens, dtype=torch.bool, device=visible.device)
    return hidden.scatter(1, visible, False)
