"""Parameters of places in an image, for images of another size: interpolated, as in fine-tuning.

A transformer for images of one size has learned something for each patch of them: an embedding, or
a bias for each distance between patches. For more or fewer patches these are taken for samples of
smooth functions of the place, and interpolated (bicubic, antialiased), which nothing random enters.
timm does so for some of its models when it loads them; this module does it for the others.

Source: A. Dosovitskiy et al., "An image is worth 16×16 words", ICLR 2021, section 3.2.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from timm.layers.pos_embed import resample_abs_pos_embed, resample_abs_pos_embed_nhwc
from timm.layers.pos_embed_rel import resize_rel_pos_bias_table_levit as resize_table
from torch import Tensor

Shape = tuple[int, ...]
MOST_PREFIX = 2  # places of a class token and of a distilled one, before those of patches


def interpolated(own: int, side: int) -> str:
    """What the provenance of features says of it."""
    return f", its places interpolated from images of {own} px to {side} px"


def fit_positions(state: Mapping[str, Tensor], shapes: Mapping[str, Shape]) -> dict[str, Tensor]:
    """The tensors, with those of places in ``shapes`` where that is known to make sense."""
    fitted = dict(state)
    for name, value in state.items():
        shape = shapes.get(name, tuple(value.shape))
        if shape == tuple(value.shape) or len(shape) != value.ndim:
            continue
        last = name.rsplit(".", 1)[-1]
        if "pos_embed" in last:
            fitted[name] = _embedding(value, shape)
        elif last == "relative_position_bias_table" and value.ndim == 2:
            fitted[name] = _biases(value, shape)
        elif last == "attention_biases" and value.ndim == 2:
            fitted[name] = _biases(value.T, shape[::-1]).T.contiguous()
    return fitted


def _embedding(value: Tensor, shape: Shape) -> Tensor:
    """Embeddings (1, n, c), (n, c), (1, h, w, c) or (1, c, h, w), those of squares of patches."""
    if value.ndim == 2:
        return _embedding(value[None], (1, *shape))[0]
    if len(value) == 1 and value.shape[-1] == shape[-1]:
        if value.ndim == 3:
            return _sequence(value, shape)
        if value.ndim == 4 and _square(value.shape[1:3]) and _square(shape[1:3]):
            return resample_abs_pos_embed_nhwc(value, list(shape[1:3]))
    elif value.ndim == 4 and value.shape[:2] == shape[:2] and _square(shape[2:]):
        last: Tensor = resample_abs_pos_embed_nhwc(value.permute(0, 2, 3, 1), list(shape[2:]))
        return last.permute(0, 3, 1, 2).contiguous()
    return value


def _sequence(value: Tensor, shape: Shape) -> Tensor:
    """Embeddings (1, n, c) of patches row by row, after those of a few tokens that stay."""
    for prefix in range(MOST_PREFIX + 1):
        own, side = (math.isqrt(max(0, count - prefix)) for count in (value.shape[1], shape[1]))
        if (own**2 + prefix, side**2 + prefix) == (value.shape[1], shape[1]):
            return resample_abs_pos_embed(value, [side, side], num_prefix_tokens=prefix)
    return value


def _square(sides: Sequence[int]) -> bool:
    return sides[0] == sides[1]


def _biases(value: Tensor, shape: Shape) -> Tensor:
    """Biases (n, heads) of distances, in rows and columns of a square."""
    squares = all(math.isqrt(n) ** 2 == n for n in (len(value), shape[0]))
    if value.shape[1] != shape[1] or not squares or not value.dtype.is_floating_point:
        return value
    resized: Tensor = resize_table(value, torch.Size(shape))
    return resized
