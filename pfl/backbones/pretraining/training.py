"""Epochs of masked autoencoding, going on where a killed run had stopped.

Order, crops and masks of an epoch are drawn from streams of its number alone, so an epoch is a
function of the state before it. The whole state is kept after each; a killed run loses one epoch
at most and ends with the same bytes.
"""

import logging
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pfl.artifacts.tensors import BROKEN, load_tensors, save_tensors
from pfl.backbones.pretraining.crops import crop, draw_crops
from pfl.backbones.pretraining.loss import masked_loss
from pfl.backbones.pretraining.masking import draw_visible, hidden_patches, visible_count
from pfl.backbones.pretraining.patches import patchify
from pfl.backbones.pretraining.recipe import ImageSet, Learner, Recipe, Row, update_average
from pfl.backbones.pretraining.schedule import learning_rate, peak_rate
from pfl.errors import InputError, of_system
from pfl.runtime.progress import progress
from pfl.runtime.rng import stream

log = logging.getLogger(__name__)
STATE = "state.safetensors"

Probe = Callable[[Learner], Row]  # what is measured of the encoder on the way


def train_epochs(
    learner: Learner, images: ImageSet, recipe: Recipe, folder: Path, probe: Probe, probe_every: int
) -> Learner:
    """Train every epoch that ``folder`` does not hold yet.

    ``probe`` is asked before the first epoch, after every ``probe_every`` ones and after the last
    one; nothing depends on what it says.

    Raises:
        InputError: training diverged; the last good state stays.
    """
    _resume(learner, folder / STATE, recipe)
    if not learner.history:
        learner.history.append({"epoch": 0, **probe(learner)})
    start, before = time.monotonic(), learner.epoch
    left = range(before + 1, recipe.epochs + 1)
    for number in progress(left, recipe.epochs, "epoch", "pretrain", initial=before):
        row: Row = {"epoch": number, **train_epoch(learner, images, recipe, number)}
        learner.epoch = number
        if number % probe_every == 0 or number == recipe.epochs:
            row |= probe(learner)
        learner.history.append(row)
        save_learner(folder / STATE, learner)
    # In the log, not in the reports: their bytes depend on what was computed alone.
    count, seconds = (learner.epoch - before) * len(images.pixels), time.monotonic() - start
    if count:
        log.info("%d images in %.1f s, %.0f a second.", count, seconds, count / seconds)
    return learner


def train_epoch(
    learner: Learner, images: ImageSet, recipe: Recipe, number: int
) -> dict[str, float]:
    """Pass over the images once; the mean loss, and the learning rate at the end.

    Batches are full; the images left over after the last one are another few in each epoch.

    Raises:
        InputError: the loss is no longer finite.
    """
    device = images.pixels.device
    count = len(images.pixels)
    size = min(recipe.batch, count)
    batches = count // size
    order = torch.randperm(count, generator=stream(recipe.seed, "order", number))
    crops, masks = (stream(recipe.seed, purpose, number) for purpose in ("crops", "masks"))
    total = torch.zeros((), dtype=torch.float64, device=device)
    rate = 0.0
    learner.model.train()
    for i, chosen in enumerate(order[: batches * size].view(batches, size)):
        rate = _set_rate(learner, recipe, size, number - 1 + i / batches)
        batch = images.batch(chosen.to(device))
        batch = crop(batch, draw_crops(size, recipe.smallest_crop, crops))
        total += _step(learner, batch, recipe, masks)
    loss = float(total) / batches
    if not math.isfinite(loss):
        raise InputError(
            f"Pretraining diverged in epoch {number}: the loss is not a finite number. Lower "
            "pretrain.learning-rate and run again."
        )
    return {"loss": loss, "learning-rate": rate}


def batch_loss(
    learner: Learner, batch: Tensor, recipe: Recipe, generator: torch.Generator
) -> Tensor:
    """The loss on images (b, 3, s, s) with patches hidden at random."""
    shape = learner.model.architecture
    patches = patchify(batch, shape.patch_size)
    kept = visible_count(shape.tokens, recipe.mask_ratio)
    visible = draw_visible(len(batch), shape.tokens, kept, generator).to(batch.device)
    with torch.autocast(batch.device.type, torch.bfloat16, enabled=recipe.bf16):
        predicted = learner.model(patches, visible)
    return masked_loss(predicted, patches, hidden_patches(visible, shape.tokens))


def _step(learner: Learner, batch: Tensor, recipe: Recipe, masks: torch.Generator) -> Tensor:
    loss = batch_loss(learner, batch, recipe, masks)
    learner.optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    learner.optimizer.step()
    update_average(learner, recipe)
    return loss.detach()


def _set_rate(learner: Learner, recipe: Recipe, batch: int, time: float) -> float:
    rate = learning_rate(time, peak_rate(recipe.lr, batch), recipe.warmup, recipe.epochs)
    for group in learner.optimizer.param_groups:
        group["lr"] = rate
    return rate


def save_learner(path: Path, learner: Learner) -> None:
    """Store the whole state, from which training goes on to the same bytes."""
    tensors = {f"model/{k}": v for k, v in learner.model.state_dict().items()}
    tensors |= {f"average/{k}": v for k, v in learner.average.items()}
    for number, values in learner.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{number}/{k}": v for k, v in values.items()}
    save_tensors(path, tensors, {"epoch": learner.epoch, "history": learner.history})


def load_learner(path: Path, learner: Learner) -> None:
    """Put what :func:`save_learner` stored into a learner of the same network and recipe.

    Raises:
        pfl.artifacts.tensors.BROKEN: the file is damaged or another learner's.
    """
    tensors, facts = load_tensors(path)
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "average": {}, "optimizer": {}}
    for key, value in tensors.items():
        kind, _, name = key.partition("/")
        parts[kind][name] = value
    moments: dict[int, dict[str, Tensor]] = {}
    for key, value in parts["optimizer"].items():
        number, _, name = key.partition("/")
        moments.setdefault(int(number), {})[name] = value
    learner.model.load_state_dict(parts["model"])
    groups: list[Any] = learner.optimizer.state_dict()["param_groups"]
    learner.optimizer.load_state_dict({"state": moments, "param_groups": groups})
    for name, value in learner.average.items():
        value.copy_(parts["average"][name])
    learner.epoch, learner.history = facts["epoch"], facts["history"]


def _resume(learner: Learner, path: Path, recipe: Recipe) -> None:
    if not path.exists():
        return
    try:
        load_learner(path, learner)
    except BROKEN as error:  # It may be made again, and must not be believed.
        if of_system(error):
            raise
        log.warning("The epochs kept so far cannot be used, all are trained again: %s", error)
        return
    log.info("Going on: %d of %d epochs were finished before.", learner.epoch, recipe.epochs)
