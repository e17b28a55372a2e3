"""extract: the features of every image, by a frozen backbone, whoever holds the image."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from pfl.runtime.locks import only_writer
from pfl.runtime.values import Device, Precision, number_or_auto, whole_or_auto
from stages._run import DeviceFlag, PrecisionFlag, Scratch, obeying, run

if TYPE_CHECKING:
    from pfl.backbones.extraction.blocks import Block
    from pfl.backbones.extraction.compute import Work
    from pfl.backbones.extraction.shards import Shard

log = logging.getLogger("pfl")


def _side(text: str) -> int | None:
    return whole_or_auto(text, "extract.image-size")


def _bound(text: str) -> float | None:
    return number_or_auto(text, "extract.feature-range")


def extract(
    images: Annotated[Path, Option(help="The artifact images.h5.")],
    out: Annotated[Path, Option(help="The artifact features.h5 to write.")],
    backbone: Annotated[
        str, Option(help="A model of timm, mobilenet_v2, or random-tiny (for tests only).")
    ],
    weights: Annotated[
        Path, Option(help="Weights file, or folder with <backbone>.pth, .pt or .safetensors.")
    ],
    image_size: Annotated[
        str,
        Option(
            callback=obeying(_side),
            help="Side of the square that the backbone sees, pixels, or auto.",
        ),
    ],
    batch_size: Annotated[int, Option(help="Images per batch.", min=1)],
    feature_range: Annotated[
        str,
        Option(
            callback=obeying(_bound),
            help="Largest feature magnitude that fixed point must hold, or auto.",
        ),
    ] = "auto",
    precision: PrecisionFlag = Precision.fp32,
    device: DeviceFlag = Device.auto,
    scratch: Scratch = Path(".scratch"),
    shard: Annotated[
        str, Option(help="i/n: only part i of n, for pfl merge-features; see docs/scale.md.")
    ] = "0/1",
) -> None:
    """Compute the backbone's features of all images, as fixed-point integers.

    A stopped run goes on where it was; the result is the same to the byte.
    """
    side, bound = _side(image_size), _bound(feature_range)
    # Imported here because they take seconds, which --help and a wrong flag need not wait for.
    import torch

    from pfl.backbones.extraction.compute import Work
    from pfl.backbones.extraction.shards import parse_shard
    from pfl.backbones.models.families import load_backbone
    from pfl.data.features.fixed_point import step_for
    from pfl.data.images.images import open_images
    from pfl.runtime.devices import chosen_device

    part = parse_shard(shard)
    logging.getLogger("timm").setLevel(logging.WARNING)
    torch.set_num_threads(1)  # Workers share the cores; this process leaves them alone.
    place = chosen_device(device.value, "extract.device")
    with only_writer([out.parent], shared=part.count > 1), open_images(images) as opened:
        loaded = load_backbone(backbone, weights, side, bound)
        step = step_for(loaded.feature_range)
        work = Work(opened, loaded, step, batch_size, precision.value, place)
        _extract(work, images, out, scratch, part)


def _extract(work: "Work", images: Path, out: Path, root: Path, part: "Shard") -> None:
    """Compute all blocks in scratch, then merge them into ``out``, which may be one shard."""
    from pfl.backbones.extraction.blocks import read_blocks
    from pfl.backbones.extraction.resume import extract_blocks
    from pfl.backbones.extraction.shards import write_shard
    from pfl.data.features.features import write_features
    from pfl.runtime.machine import cores
    from pfl.runtime.scratch import scratch, work_key

    facts, packages = _facts(work, images), _packages(work)
    whole = part.count == 1
    name = "extract" if whole else f"extract-{part.number}-of-{part.count}"
    with scratch(root, name, work_key(facts, packages)) as folder:
        blocks = extract_blocks(work, folder, cores(), part.batches(work.batches))
        saturation = _saturation(blocks, work)
        if not whole:
            write_shard(out, blocks, work.backbone.m, len(work.images), facts, packages)
            return
        write_features(
            out,
            (len(work.images), work.backbone.m),
            lambda start, stop: read_blocks(blocks, start, stop),
            facts | saturation,
            packages,
        )


def _facts(work: "Work", images: Path) -> dict[str, str | int | float]:
    """What the features depend on and a reader wants to know."""
    from pfl.artifacts.hashing import recorded_sha256

    return {
        "backbone": work.backbone.name,
        "backbone-description": work.backbone.description,
        "weights-sha256": work.backbone.weights_sha256,
        "images-sha256": recorded_sha256(images, "images"),
        "transform": str(work.backbone.transform),
        "image-size": work.backbone.transform.size,
        "feature-range": work.backbone.feature_range,
        "step": work.step,
        "batch-size": work.batch,
        "precision": work.precision,
        "device": work.device.type,
    }


def _packages(work: "Work") -> tuple[str, ...]:
    """Distributions whose version may change a feature; Pillow decodes and skews images."""
    stack = ("numpy", "timm", "torch", "torchvision")
    return (*stack, "pillow") if work.images.decoded else stack


def _saturation(blocks: "Sequence[Block]", work: "Work") -> dict[str, int | float]:
    """Count clipped values over all blocks; warn of any, and of a range far too wide."""
    from pfl.data.features.fixed_point import range_for, underflows

    images, m = sum(block.stop - block.start for block in blocks), work.backbone.m
    saturated = sum(block.saturated for block in blocks)
    largest = max((block.largest for block in blocks), default=0.0)
    total = images * m
    log.info(
        "%d images, %d features each, largest magnitude %.4g; %d of %d values saturated.",
        images, m, largest, saturated, total,
    )  # fmt: skip
    if saturated:
        log.warning(
            "%d feature values (%.2g %%) exceed the fixed-point range and were clipped: set "
            "extract.feature-range to at least %s to avoid it.",
            saturated, 100 * saturated / total, range_for(largest),
        )  # fmt: skip
    if underflows(largest, work.step):
        log.warning(
            "All features are small beside the feature range %.4g and lost most of their "
            "precision in fixed point: set extract.feature-range to about %s.",
            work.backbone.feature_range, range_for(largest),
        )  # fmt: skip
    return {"saturated": saturated, "largest": largest}


if __name__ == "__main__":
    run(extract, "out", alone=False)  # shards write beside each other, the whole alone
