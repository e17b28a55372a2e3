"""pretrain: a masked autoencoder on public images; its encoder is a backbone for extract."""

import importlib.metadata
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pfl.runtime.values import Precision
from stages._run import LARGEST_SEED, DeviceFlag, PrecisionFlag, Scratch, finite, positive, run

if TYPE_CHECKING:
    from pfl.backbones.pretraining.data import PublicData
    from pfl.backbones.pretraining.recipe import Learner, Recipe, Row

PACKAGES = ("numpy", "pillow", "timm", "torch")  # whose versions may change the result
Option = typer.Option
Input = Annotated[Path, Option(help="An artifact of the stage public.")]
Report = Annotated[Path, Option(help="Output folder: epochs.csv, metrics.json, figures.")]
Out = Annotated[Path, Option(help="Output: the encoder.")]
Size = Annotated[int, Option(min=2, max=4096, help="Side of the images, pixels.")]
Patch = Annotated[int, Option(min=1, help="Side of a patch, pixels; divides image-size.")]
Width = Annotated[int, Option(min=4, help="Numbers per patch, which are the features m.")]
Depth = Annotated[int, Option(min=1, help="Transformer blocks of the encoder.")]
Heads = Annotated[int, Option(min=1, help="Attention heads, which divide the width.")]
DecoderWidth = Annotated[int, Option(min=4, help="Numbers per patch in the decoder.")]
DecoderDepth = Annotated[int, Option(min=1, help="Transformer blocks of the decoder.")]
DecoderHeads = Annotated[int, Option(min=1, help="Attention heads of the decoder.")]
Ratio = Annotated[
    float, Option(min=0.0, max=1.0, callback=finite, help="Share of the patches that is hidden.")
]
Crop = Annotated[
    float,
    Option(min=0.0, max=1.0, callback=finite, help="Least share of an image in a crop; 1: all."),
]
Epochs = Annotated[int, Option(min=0, help="Passes over the images; 0: untrained.")]
Warmup = Annotated[
    float, Option(min=0.0, callback=finite, help="Epochs over which the learning rate rises.")
]
Batch = Annotated[int, Option(min=1, help="Images a step.")]
Rate = Annotated[float, Option(callback=positive, help="Learning rate for batches of 256.")]
Decay = Annotated[float, Option(min=0.0, callback=finite, help="Weight decay.")]
Average = Annotated[
    float, Option(min=0.0, max=1.0, callback=finite, help="Moving average of weights; 0: none.")
]
Every = Annotated[int, Option(min=1, help="Epochs between linear probes.")]
Threads = Annotated[int, Option(min=1, help="Of the CPU; another number may change last bits.")]
Seed = Annotated[int, Option(min=0, max=LARGEST_SEED, help="Of weights, order, crops and masks.")]


def pretrain(
    images: Input, index: Input, report: Report, out: Out, image_size: Size, patch_size: Patch,
    width: Width, depth: Depth, heads: Heads, decoder_width: DecoderWidth,
    decoder_depth: DecoderDepth, decoder_heads: DecoderHeads, mask_ratio: Ratio,
    smallest_crop: Crop, epochs: Epochs, warmup_epochs: Warmup, batch_size: Batch,
    learning_rate: Rate, weight_decay: Decay, ema: Average, probe_every: Every,
    precision: PrecisionFlag, device: DeviceFlag, threads: Threads, seed: Seed,
    scratch: Scratch = Path(".scratch"),
) -> None:  # fmt: skip
    """Train a masked autoencoder on public images without their labels, and keep its encoder.

    A stopped run goes on after its last finished epoch; the result is the same to the byte.
    """
    # Imported here because they take seconds, which --help and a wrong flag need not wait for.
    import torch

    from pfl.backbones.mae.encoder import Architecture
    from pfl.backbones.pretraining.data import load_public_data
    from pfl.backbones.pretraining.masking import visible_count
    from pfl.backbones.pretraining.model import Decoder, build_autoencoder
    from pfl.backbones.pretraining.recipe import Recipe, begin
    from pfl.backbones.pretraining.training import train_epochs
    from pfl.runtime.devices import chosen_device
    from pfl.runtime.process import keep_memory
    from pfl.runtime.rng import stream
    from pfl.runtime.scratch import scratch as unfinished
    from pfl.runtime.scratch import work_key

    architecture = Architecture(image_size, patch_size, width, depth, heads)
    decoder = Decoder(decoder_width, decoder_depth, decoder_heads)
    visible_count(architecture.tokens, mask_ratio)  # refused now rather than after reading images
    recipe = Recipe(
        seed=seed, epochs=epochs, warmup=warmup_epochs, batch=batch_size, lr=learning_rate,
        weight_decay=weight_decay, mask_ratio=mask_ratio, smallest_crop=smallest_crop, ema=ema,
        bf16=precision is Precision.bf16,
    )  # fmt: skip
    place = chosen_device(device.value, "pretrain.device")
    torch.set_num_threads(threads)
    keep_memory()
    facts = {"architecture": asdict(architecture), "decoder": asdict(decoder),
             "recipe": asdict(recipe), "probe-every": probe_every, "threads": threads,
             "device": place.type}  # fmt: skip
    data = load_public_data(images, index, image_size, place)
    learner = begin(
        build_autoencoder(architecture, decoder, stream(seed, "weights")).to(place), recipe
    )
    probe = _probe(data)  # before the key, which has the code of all that is imported by then
    key = work_key(facts, PACKAGES, (images, index))
    with unfinished(scratch, f"pretrain-{out.stem}", key) as folder:
        train_epochs(learner, data.train, recipe, folder, probe, probe_every)
        _write(out, report, learner, data, recipe, facts)


def _probe(data: "PublicData") -> "Callable[[Learner], Row]":
    """What is measured of an encoder: the linear probe, if there are labels."""
    from pfl.backbones.pretraining.probe import encoder_features, probe_accuracy

    def probe(learner: "Learner") -> "Row":
        if not data.probed:
            return {}
        features = encoder_features(learner, data.probe)
        return {"probe": probe_accuracy(features, data.labels, data.classes)}

    return probe


def _write(
    out: Path, report: Path, learner: "Learner", data: "PublicData", recipe: "Recipe",
    facts: dict[str, Any],
) -> None:  # fmt: skip
    """The encoder, with what it was made of and by, and the report."""
    from pfl.backbones.mae.encoder_file import Encoder, save_encoder
    from pfl.backbones.pretraining.recipe import encoder_weights
    from pfl.backbones.pretraining.report import write_report

    training = {
        "images": len(data.train.pixels), "epochs": recipe.epochs, "images-sha256": data.sha256,
        **{name: value for name, value in facts.items() if name != "architecture"},
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
    }  # fmt: skip
    weights = {name: value.cpu() for name, value in encoder_weights(learner).items()}
    mean, std = data.train.statistics
    architecture = learner.model.architecture
    write_report(report, learner, data.shown, recipe, {"images": training["images"]} | facts)
    save_encoder(out, Encoder(architecture, mean, std, weights, training))


if __name__ == "__main__":
    run(pretrain, "report", "out", alone=False)  # its scratch is locked, for each data set
