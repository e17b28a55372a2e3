"""The report on a run of pretraining: a table of its epochs, a few numbers, figures."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pfl.artifacts.csv import csv_text
from pfl.artifacts.files import write_text
from pfl.artifacts.json import json_text
from pfl.backbones.pretraining.figure import draw_curve, draw_reconstructions
from pfl.backbones.pretraining.loss import restored
from pfl.backbones.pretraining.masking import draw_visible, hidden_patches, visible_count
from pfl.backbones.pretraining.patches import patchify, unpatchify
from pfl.backbones.pretraining.recipe import ImageSet, Learner, Recipe
from pfl.runtime.rng import stream

COLUMNS = ("epoch", "loss", "learning-rate", "probe")
SHOWN = 8  # images whose reconstruction is drawn


def write_report(
    folder: Path, learner: Learner, shown: ImageSet, recipe: Recipe, facts: dict[str, Any]
) -> None:
    """``epochs.csv``, ``metrics.json``, and the figures ``curve`` and ``reconstruction``.

    ``shown`` are images to reconstruct, none of which were trained on if there are such.
    """
    history = learner.history
    rows = ([row.get(name, math.nan) for name in COLUMNS] for row in history)
    write_text(folder / "epochs.csv", csv_text(COLUMNS, rows))
    probes = [row["probe"] for row in history if "probe" in row]
    metrics = {
        "loss": history[-1].get("loss"),
        "probe": probes[-1] if probes else None,
        "probe-untrained": probes[0] if probes else None,
        **facts,
    }
    write_text(folder / "metrics.json", json_text(metrics))
    if recipe.epochs:
        draw_curve(folder / "curve.png", history)
    images = shown.batch(slice(0, SHOWN))
    rows_drawn = reconstructions(learner, images, recipe)
    draw_reconstructions(
        folder / "reconstruction.png", [_viewable(row, shown) for row in rows_drawn]
    )


def reconstructions(
    learner: Learner, images: Float[Tensor, "n 3 s s"], recipe: Recipe
) -> tuple[Tensor, Tensor, Tensor]:
    """Images, the same with hidden patches grey, and with them predicted (normalized pixels).

    A prediction is of a patch's normalized pixels; it is shown at the true patch's brightness and
    contrast, as is usual. Grey is 0 here, the data's mean.
    """
    shape = learner.model.architecture
    patches = patchify(images, shape.patch_size)
    kept = visible_count(shape.tokens, recipe.mask_ratio)
    masks = stream(recipe.seed, "figure")
    visible = draw_visible(len(images), shape.tokens, kept, masks).to(images.device)
    hidden = hidden_patches(visible, shape.tokens)[:, :, None]
    with torch.inference_mode():
        predicted = learner.model.eval()(patches, visible).float()
    both = torch.where(hidden, restored(predicted, patches), patches)
    masked = torch.where(hidden, torch.zeros(()).to(patches), patches)
    seen, rebuilt = (unpatchify(p, shape.patch_size, shape.side) for p in (masked, both))
    return images, seen, rebuilt


def _viewable(images: Tensor, shown: ImageSet) -> Float[np.ndarray, "n s s 3"]:
    """Pixels 0 … 1, channels last."""
    mean, std = (v.view(-1, 1, 1) for v in (shown.view.mean, shown.view.std))
    return (images * std + mean).clamp(0, 1).permute(0, 2, 3, 1).cpu().numpy()
