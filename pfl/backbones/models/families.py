"""The table of backbone families, and how each builds a network and fills it with weights."""

import difflib
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import timm
from huggingface_hub import hf_hub_url
from timm.data.config import resolve_model_data_config
from timm.models import get_pretrained_cfg
from torch import Tensor, nn
from torchvision.models import MobileNet_V2_Weights, mobilenet_v2

from pfl.backbones.models.backbone import Backbone, frozen
from pfl.backbones.models.own import MAE, PIXELS, masked_autoencoder, random_tiny, raw_pixels
from pfl.backbones.models.positions import fit_positions, interpolated
from pfl.backbones.models.transform import configured
from pfl.backbones.models.weights import (
    Lookup,
    check_name,
    find_weights,
    hugging_face,
    packaged_lite0,
    read_state,
    torch_hub,
)
from pfl.errors import InputError, one_line
from pfl.runtime.scratch import file_sha256

log = logging.getLogger(__name__)
LITE0 = "tf_efficientnet_lite0"
MISFIT = (RuntimeError, KeyError, ValueError, TypeError, AttributeError, IndexError, AssertionError)
# Parts of a masked autoencoder that only its training needs.
DECODER = ("decoder", "mask_token")


def load_backbone(
    name: str, weights: Path, image_size: int | None = None, feature_range: float | None = None
) -> Backbone:
    """Load a backbone with its weights; None stands for the backbone's own.

    ``weights`` is a file, or a folder in which ``<name>.pth``, ``.pt`` or ``.safetensors`` is
    looked up first; then come packaged weights and those of the hub (its cache, or the network).

    Raises:
        InputError: the name is unknown; no weights are found; they do not fit; the size does not.
    """
    if name.startswith(f"{MAE}:"):
        raise InputError(
            f"The backbone '{name}' names a file, which DVC would not watch: set extract.backbone "
            f"to {MAE} and extract.weights to {name.removeprefix(f'{MAE}:')}."
        )
    family = FAMILIES.get(name, _timm)
    return family(name, weights, image_size, feature_range)


def _timm(name: str, weights: Path, side: int | None, bound: float | None) -> Backbone:
    config = _timm_config(name)
    tagged = f"{config['architecture']}.{config['tag']}" if config["tag"] else name
    places, advice = _timm_places(name, config)
    path = find_weights(name, weights, places, advice)
    digest = _digest(name, path, tuple(Path(url).name for url in (config["url"],) if url))
    own = config["input_size"][-1]
    resized = bool(side) and side != own and config["fixed_input_size"]
    model = _filled(name, config, path, side if resized else None)
    model.reset_classifier(0)
    settings = resolve_model_data_config(model)  # type: ignore[no-untyped-call]
    transform = configured(settings, side)
    told = interpolated(own, transform.size) if resized else ""
    return frozen(name, model, transform, digest, f"timm {tagged}{told}", bound)


def _timm_config(name: str) -> dict[str, Any]:
    try:
        config = get_pretrained_cfg(name) if timm.is_model(name) else None
    except RuntimeError:  # a tag that the model does not have
        config = None
    if config is None:
        known = {*FAMILIES, *timm.list_models(), *timm.list_pretrained()}
        close = difflib.get_close_matches(name, sorted(known), n=4, cutoff=0.6)
        hint = f"did you mean {', '.join(close)}?" if close else "see timm.list_models()."
        raise InputError(f"Unknown backbone '{name}': set extract.backbone to a known one; {hint}")
    return vars(config)


def _timm_places(name: str, config: Mapping[str, Any]) -> tuple[list[Lookup], str]:
    """Where a timm model's weights may be, and what to do when none has them."""
    packaged: list[Lookup] = [packaged_lite0] if name in (LITE0, f"{LITE0}.in1k") else []
    if config["hf_hub_id"]:
        url = hf_hub_url(config["hf_hub_id"], "model.safetensors")
        return [*packaged, partial(hugging_face, config["hf_hub_id"])], _fetch(name, url)
    if config["url"]:
        return [*packaged, partial(torch_hub, config["url"])], _fetch(name, config["url"])
    return packaged, (
        "Nobody offers weights of this model: set extract.weights to a file of your own, or "
        "choose a tagged model from timm.list_pretrained()."
    )


def _fetch(name: str, url: str) -> str:
    suffix = ".safetensors" if url.endswith(".safetensors") else ".pth"
    return (
        f"Download {url} where there is a connection, save it as data/weights/{name}{suffix}, "
        "and run again."
    )


def _digest(name: str, path: Path, official: tuple[str, ...] = ()) -> str:
    """SHA-256 of a weights file, checked where the name of an official file ends with it."""
    digest = file_sha256(path)
    check_name(path, digest, official)
    log.info("Weights of %s: %s, SHA-256 %s…", name, path.name, digest[:8])
    return digest


def _filled(name: str, config: Mapping[str, Any], path: Path, side: int | None) -> Any:
    """Create a timm model with the tensors of ``path``, all of which must fit.

    Where images are of another size than the model's own, ``side``, so are its parameters of
    places, which timm or :mod:`pfl.backbones.models.positions` interpolates.

    Raises:
        InputError: they do not fit, or do so at the model's own size alone.
    """
    stored = read_state(path)
    state = {k: v for k, v in stored.items() if not k.startswith(DECODER)} or stored
    if name in (LITE0, f"{LITE0}.in1k") and "_conv_stem.weight" in state:
        state = _renamed(state, timm.create_model(name, pretrained=False))
    try:
        return _created(name, config, state, side)
    except MisfitError as error:
        if side is None:
            raise _misfit(name, path, str(error)) from error
    try:
        shapes = timm.create_model(name, pretrained=False, img_size=side).state_dict()
        fitted = fit_positions(state, {key: tuple(value.shape) for key, value in shapes.items()})
        return _created(name, config, fitted, side)
    except (MisfitError, *MISFIT) as error:
        _filled(name, config, path, None)  # which says of wrong weights that they are
        raise _own_size(name, config["input_size"][-1], str(side)) from error


class MisfitError(Exception):
    """Tensors do not fit a model; the message says which."""


def _created(
    name: str, config: Mapping[str, Any], state: Mapping[str, Tensor], side: int | None
) -> Any:
    """Create a timm model with these tensors.

    The classifier is created as wide as the file's own, so that the check stays strict and any
    fine-tuned head is accepted; the caller removes it.

    Raises:
        MisfitError: some are missing, too many, or of another shape.
    """
    reason = ""
    size: dict[str, Any] = {"img_size": side} if side else {}
    for classes in _head_widths(state, config):
        overlay = {"state_dict": dict(state), "num_classes": classes, "label_offset": 0}
        try:
            return timm.create_model(
                name,
                pretrained=True,
                pretrained_cfg_overlay=overlay | {"custom_load": False},
                num_classes=classes,
                **size,
            )
        except MISFIT as error:
            reason = reason or one_line(error, 400)
    raise MisfitError(reason)


def _own_size(name: str, own: int, side: str) -> InputError:
    return InputError(
        f"Backbone '{name}' takes images of {own} × {own} pixels, its own size, and what it has "
        f"learned of places in them cannot be interpolated to {side} × {side}: set "
        "extract.image-size to auto, or choose another backbone."
    )


def _renamed(state: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Tensors under the model's own names: both files list the same tensors in the same order."""
    names = model.state_dict()
    return dict(zip(names if len(names) == len(state) else state, state.values(), strict=True))


def _head_widths(state: Mapping[str, Tensor], config: Mapping[str, Any]) -> Iterator[int]:
    """Numbers of classes that the file may have been saved with, the likely one first."""
    heads = config["classifier"] or ()
    for head in (heads,) if isinstance(heads, str) else heads:
        if f"{head}.weight" in state:
            yield len(state[f"{head}.weight"])
            return
    yield config["num_classes"]
    if config["num_classes"]:
        yield 0


def _misfit(name: str, path: Path, reason: str) -> InputError:
    return InputError(
        f"The weights in {path} do not fit backbone '{name}' ({reason}): give the weights "
        "of this very model, or set extract.backbone to the model that they belong to."
    )


def _mobilenet(name: str, weights: Path, side: int | None, bound: float | None) -> Backbone:
    """MobileNetV2 of torchvision; its second official file wants another resize than the first."""
    releases = tuple(MobileNet_V2_Weights)
    first = MobileNet_V2_Weights.IMAGENET1K_V1
    path = find_weights(name, weights, [partial(torch_hub, first.url)], _fetch(name, first.url))
    digest = _digest(name, path, tuple(Path(r.url).name for r in releases))
    release = next((r for r in releases if digest.startswith(Path(r.url).stem[-8:])), first)
    state = read_state(path)
    head = state.get("classifier.1.weight")
    model = mobilenet_v2(num_classes=1000 if head is None else len(head))
    try:
        model.load_state_dict(state)
    except MISFIT as error:
        raise _misfit(name, path, one_line(error, 400)) from error
    model.classifier = nn.Identity()
    preset = release.transforms()
    config = {
        "input_size": (3, *preset.crop_size, *preset.crop_size),
        "crop_pct": preset.crop_size[0] / preset.resize_size[0],
        "crop_mode": "center",
        "interpolation": preset.interpolation.value,
        "mean": preset.mean,
        "std": preset.std,
    }
    transform = configured(config, side)
    return frozen(name, model, transform, digest, f"torchvision {name} {release.name}", bound)


FAMILIES: dict[str, Callable[[str, Path, int | None, float | None], Backbone]] = {
    MAE: masked_autoencoder,
    "mobilenet_v2": _mobilenet,
    PIXELS: raw_pixels,
    "random-tiny": random_tiny,
}
