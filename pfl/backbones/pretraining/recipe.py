"""How a masked autoencoder is trained, and its state while it is."""

from dataclasses import dataclass

import torch
from jaxtyping import UInt8
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from pfl.backbones.pretraining.model import MaskedAutoencoder
from pfl.data.tensors.pixels import PixelView
from pfl.errors import InputError

BETAS = (0.9, 0.95)

Row = dict[str, int | float]  # of one epoch, by column; what was not measured is absent


@dataclass(frozen=True)
class Recipe:
    """What training depends on besides the images and the network.

    Attributes:
        seed: of weights, order, crops and masks.
        epochs: passes over the images; 0 leaves the network untrained.
        warmup: epochs over which the learning rate rises.
        batch: images a step.
        lr: learning rate for batches of 256.
        weight_decay: of matrices; biases and normalizations have none.
        mask_ratio: share of the patches that is hidden.
        smallest_crop: share of an image's area that a crop has at least.
        ema: weight of the old in the moving average of weights that becomes the result; 0: none.
        bf16: whether matrix products are in bfloat16.
    """

    seed: int
    epochs: int
    warmup: float
    batch: int
    lr: float
    weight_decay: float
    mask_ratio: float
    smallest_crop: float
    ema: float
    bf16: bool

    def __post_init__(self) -> None:
        """Check what ranges of single values do not.

        Raises:
            InputError: a share is at an end that leaves nothing, or the warm-up never ends.
        """
        for name, value, fits, choose in (
            ("smallest-crop", self.smallest_crop, self.smallest_crop > 0, "above 0, up to 1"),
            ("ema", self.ema, self.ema < 1, "below 1, from 0 on"),
        ):
            if not fits:
                raise InputError(
                    f"pretrain.{name} is {value:g}, which leaves nothing to train: choose one "
                    f"{choose}."
                )
        if self.epochs and not self.warmup < self.epochs:
            raise InputError(
                f"pretrain.warmup-epochs is {self.warmup:g} of {self.epochs} epochs, so that the "
                "learning rate would never come down: set it lower."
            )


@dataclass(frozen=True)
class ImageSet:
    """Images of one size, on the device that trains.

    Attributes:
        pixels: bytes, grey or RGB.
        view: how they are normalized.
    """

    pixels: UInt8[Tensor, "n s s c"]
    view: PixelView

    @property
    def statistics(self) -> tuple[list[float], list[float]]:
        """Mean and standard deviation of red, green and blue, of pixels scaled to 0 … 1."""
        mean, std = (v.cpu().expand(3).tolist() for v in (self.view.mean, self.view.std))
        return mean, std

    def batch(self, numbers: Tensor | slice) -> Tensor:
        """Some of them, normalized, in three channels: (b, 3, s, s)."""
        chosen = self.view(self.pixels[numbers])
        return chosen.expand(-1, 3, -1, -1) if chosen.shape[1] == 1 else chosen


@dataclass
class Learner:
    """All that training changes.

    Attributes:
        model: the network.
        optimizer: of its weights, with its moments.
        average: the moving average of the encoder's weights, by name; empty where none is kept.
        epoch: how many are finished.
        history: a row for each epoch, the start first.
    """

    model: MaskedAutoencoder
    optimizer: Optimizer
    average: dict[str, Tensor]
    epoch: int
    history: list[Row]


def begin(model: MaskedAutoencoder, recipe: Recipe) -> Learner:
    """The state before the first epoch."""
    average = _weights(model.encoder) if recipe.ema else {}
    return Learner(
        model, _optimizer(model, recipe), {k: v.clone() for k, v in average.items()}, 0, []
    )


def update_average(learner: Learner, recipe: Recipe) -> None:
    """Move the average of the encoder's weights, a ← e·a + (1 − e)·w."""
    if recipe.ema:
        weights = _weights(learner.model.encoder)
        torch._foreach_lerp_(
            [learner.average[name] for name in weights], list(weights.values()), 1 - recipe.ema
        )


def encoder_weights(learner: Learner) -> dict[str, Tensor]:
    """The result so far: the averaged weights where an average is kept, else the last ones."""
    return learner.average or _weights(learner.model.encoder)


def _weights(encoder: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach() for name, value in encoder.state_dict().items()}


def _optimizer(model: nn.Module, recipe: Recipe) -> Optimizer:
    """AdamW; vectors (biases, normalizations, the mask token) are not drawn to zero."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    groups = [
        {
            "params": [w for w in trained if (w.squeeze().ndim > 1) == matrices],
            "weight_decay": decay,
        }
        for matrices, decay in ((True, recipe.weight_decay), (False, 0.0))
    ]
    return AdamW(groups, lr=0.0, betas=BETAS, fused=True)
