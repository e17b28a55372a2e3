"""What a loaded backbone is, and what a trial run tells about it: m, and how large features get."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from pfl.backbones.models.transform import Transform
from pfl.errors import InputError, one_line

DEFAULT_RANGE = 32.0
# What may follow the last activation without making features larger.
SHRINKING = (
    nn.Identity,
    nn.Flatten,
    nn.AdaptiveAvgPool2d,
    nn.AvgPool2d,
    nn.modules.dropout._DropoutNd,
)


@dataclass(frozen=True)
class Backbone:
    """A frozen feature extractor f: images → R^m.

    Attributes:
        name: as asked for.
        module: in evaluation mode, without gradients; normalized images to (b, m) features.
        transform: how images become its input.
        m: features per image.
        feature_range: magnitude that fixed point has to hold.
        weights_sha256: of the file with the weights (of the weights themselves where no file is).
        description: model and origin of the weights, for provenance.
    """

    name: str
    module: nn.Module
    transform: Transform
    m: int
    feature_range: float
    weights_sha256: str
    description: str

    def features(
        self, pixels: UInt8[Tensor, "b 3 size size"], precision: str = "fp32"
    ) -> Float[Tensor, "b m"]:
        """float32 features of resized pixels, computed on the device that holds both.

        ``precision`` is ``fp32`` or ``bf16``: the type of matrix products, by autocast.
        """
        device = pixels.device.type
        bf16 = precision == "bf16"
        with torch.inference_mode(), torch.autocast(device, torch.bfloat16, enabled=bf16):
            features: Tensor = self.module(self.transform.normalize(pixels))
        return features.float()


def frozen(
    name: str,
    module: nn.Module,
    transform: Transform,
    weights_sha256: str,
    description: str,
    feature_range: float | None = None,
) -> Backbone:
    """Freeze a module that returns (b, m) features, and find m and the feature range by a trial.

    Raises:
        InputError: the module cannot take images of the transform's size.
    """
    module = module.eval().requires_grad_(False).to(memory_format=torch.channels_last)
    features, last = _trial(name, module, transform.size)
    bound = feature_range or _bound(last, float(features.abs().max()))
    return Backbone(name, module, transform, features.shape[1], bound, weights_sha256, description)


def _trial(name: str, module: nn.Module, size: int) -> tuple[Float[Tensor, "1 m"], nn.Module]:
    """Features of a noise image, and the last layer to run that can make features larger."""
    noise = torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode(), _recorded(module) as ran:
        try:
            features = module(noise.contiguous(memory_format=torch.channels_last))
        except (RuntimeError, AssertionError, ValueError) as error:
            raise InputError(
                f"Backbone '{name}' cannot take images of {size} × {size} pixels "
                f"({one_line(error)}): set extract.image-size to auto, its own size."
            ) from error
    if features.ndim != 2:
        raise InputError(
            f"Backbone '{name}' gives features of shape {tuple(features.shape[1:])} per image, "
            "but one vector is needed: choose a model that pools its features."
        )
    return features, next(m for m in reversed(ran) if not isinstance(m, SHRINKING))


@contextmanager
def _recorded(module: nn.Module) -> Iterator[list[nn.Module]]:
    """Collect the leaf layers in the order in which they finish."""
    ran: list[nn.Module] = [module]
    leaves = [layer for layer in module.modules() if not any(layer.children())]
    hooks = [layer.register_forward_hook(lambda m, *_: ran.append(m)) for layer in leaves]
    try:
        yield ran
    finally:
        for hook in hooks:
            hook.remove()


def _bound(last: nn.Module, seen: float) -> float:
    """A bound on feature magnitude that no image can exceed, or ``DEFAULT_RANGE`` without one.

    ReLU6 ends at 6. LayerNorm normalizes a vector of m values to mean 0 and variance 1, so that
    none exceeds √m, and then multiplies by γ and adds β: at most max|γ|·√m + max|β|. A trial
    above the bound (an addition after the last layer, say) shows that it does not hold.
    """
    bound = DEFAULT_RANGE
    if isinstance(last, nn.ReLU6):
        bound = 6.0
    elif isinstance(last, nn.LayerNorm):
        bound = math.sqrt(math.prod(last.normalized_shape))
        if last.weight is not None:
            bound *= float(last.weight.abs().max())
        if last.bias is not None:
            bound += float(last.bias.abs().max())
    return bound if seen <= bound else DEFAULT_RANGE
