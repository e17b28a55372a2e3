"""A folder with one client's model that runs without this project, checked by running it.

``model.pt2`` (torch.export) and ``model.onnx`` hold backbone and head in one graph, see
:mod:`pfl.cli.deployment.network`; ``preprocess.py`` what is to be done to an image before;
``head.safetensors`` the head alone; ``model.json`` the class names, the class prior, where the
model comes from, and how it compared with the pipeline; ``README.md`` how to run it.
"""

import importlib.util
import json
import logging
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from safetensors.numpy import save
from torch import Tensor

from pfl.artifacts.hashing import recorded_sha256
from pfl.artifacts.hdf5 import reading
from pfl.artifacts.project import Project
from pfl.artifacts.provenance import check_origin, origin
from pfl.cli.deployment.head import CalibratedHead
from pfl.cli.deployment.model import Model
from pfl.cli.deployment.network import Agreement, Deployed, compare
from pfl.cli.deployment.readme import readme
from pfl.cli.deployment.standalone import preprocessing
from pfl.data.images.images import open_images
from pfl.data.samples.clients import read_clients
from pfl.data.samples.index import read_index
from pfl.errors import InputError

IMAGES = 64  # that a model is compared on
ONNX = ("onnx", "onnxscript", "onnxruntime")
KEY = "pfl"  # of the metadata: with several, safetensors writes them in a random order

Run = Callable[[UInt8[Tensor, "n 3 size size"]], Float[np.ndarray, "n d"]]


def export_model(model: Model, project: Project, out: Path) -> dict[str, Agreement]:
    """Write the folder ``out``; returns how each of its models compares, by file name.

    Raises:
        InputError: the folder holds something else, an artifact is missing, the heads are of mapped
            features, or an exported model gives other scores than the pipeline.
    """
    if model.maps:
        raise InputError(
            "The heads are of mapped features, and an exported model knows no maps: set project "
            "and lift in the section features of params.yaml to 0, norm to none, run `dvc repro`."
        )
    torch.set_num_threads(1)  # as in `extract`
    pixels = examples(model, project)
    with _replacing_folder(out) as folder:
        runs = {"model.pt2": _torch_export(model, folder / "model.pt2", pixels)}
        if has_onnx():
            runs["model.onnx"] = _onnx(folder)
        agreements = {name: compare(model, pixels, run(pixels)) for name, run in runs.items()}
        for name, agreement in agreements.items():
            _check(name, agreement)
        facts = _facts(model, project)
        compared = {name: asdict(agreement) for name, agreement in agreements.items()}
        text = json.dumps({**facts, "compared": compared}, indent=2, allow_nan=False)
        (folder / "model.json").write_text(text + "\n", encoding="utf-8")
        (folder / "README.md").write_text(readme(model, tuple(runs)), encoding="utf-8")
        (folder / "preprocess.py").write_text(preprocessing(model), encoding="utf-8")
        head = save(_arrays(model.head), {KEY: json.dumps(facts)})
        (folder / "head.safetensors").write_bytes(head)
    return agreements


def has_onnx() -> bool:
    """Whether the packages that write and run ONNX files are installed."""
    return all(importlib.util.find_spec(name) for name in ONNX)


@contextmanager
def _replacing_folder(out: Path) -> Iterator[Path]:
    """Yield a folder that takes the place of ``out`` at the end, if nothing fails."""
    if out.exists() and not (out / "model.json").is_file():
        raise InputError(f"{out} exists and is no exported model: name a new folder with --out.")
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        yield part
    except BaseException:
        shutil.rmtree(part)
        raise
    if out.exists():
        shutil.rmtree(out)
    part.rename(out)


def examples(model: Model, project: Project) -> UInt8[Tensor, "n 3 size size"]:
    """Test images of the client, training images where it has none, resized.

    Of a new client, which has none, those of all.
    """
    path = project.artifact("images")
    with reading(project.artifact("features"), "features") as file:
        actual = recorded_sha256(path, "images")
        check_origin("features", origin(file, "images"), "images", actual)
    clients = read_clients(project.artifact("clients"))
    own = np.concatenate(
        [
            part.sample if model.client is None else part.of(model.client)
            for part in (clients.test, clients.train)
        ]
    )
    index = read_index(project.artifact("index"))
    chosen = index.images_of(own[:IMAGES]).tolist()
    with open_images(path) as images:
        transform = model.backbone.transform
        pixels = [transform.pixels([np.asarray(images.rgb(i, i + 1)[0])]) for i in chosen]
    if not pixels:
        raise InputError(
            f"Client {model.whose} has no images, so that its model cannot be checked: export "
            "the model of another client."
        )
    return torch.cat(pixels).contiguous()


def _torch_export(model: Model, path: Path, pixels: UInt8[Tensor, "n 3 size size"]) -> Run:
    """Write ``model.pt2``; returns what runs it."""
    example = torch.cat([pixels[:1], pixels[:1]])  # A batch of one would be taken as the only size.
    with _quiet():
        program = torch.export.export(
            Deployed(model).eval(),
            (example,),
            dynamic_shapes={"pixels": {0: torch.export.Dim("batch")}},
        )
        torch.export.save(program, path)
        loaded = torch.export.load(path).module()

    def run(pixels: Tensor) -> np.ndarray:
        with torch.inference_mode():
            return loaded(pixels).numpy()

    return run


def _onnx(folder: Path) -> Run:
    """Write ``model.onnx`` from ``model.pt2``; returns what runs it."""
    import onnxruntime

    path = folder / "model.onnx"
    with _quiet():
        program = torch.export.load(folder / "model.pt2")
        torch.onnx.export(
            program, f=path, input_names=["pixels"], output_names=["scores"],
            dynamo=True, external_data=False, verbose=False,
        )  # fmt: skip
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    return lambda pixels: session.run(None, {"pixels": pixels.numpy()})[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what exporters say of their own insides from the user."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _check(name: str, agreement: Agreement) -> None:
    if agreement.allowed is not None and agreement.difference > agreement.allowed:
        raise InputError(
            f"{name} gives scores that differ from the pipeline's by up to "
            f"{agreement.difference:.2g}, where rounding explains {agreement.allowed:.2g}: this "
            "backbone cannot be exported faithfully with the versions installed. Nothing was "
            "written."
        )


def _arrays(head: CalibratedHead) -> dict[str, Float[np.ndarray, "..."]]:
    """The head in float32, its class prior apart."""
    arrays = {"weight": head.weight, "bias": head.bias, "log_ratio": head.log_ratio}
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def _prior(model: Model) -> dict[str, object]:
    """What whoever puts other class shares in the place of these needs to know."""
    head = model.head
    return {
        "name": model.prior,
        "power": head.prior,
        "shares": head.shares.tolist(),
        "everybody": head.everybody.tolist(),
        "log-ratio": head.log_ratio.tolist(),
    }


def _facts(model: Model, project: Project) -> dict[str, Any]:
    """What whoever runs the model needs to know, and where it comes from."""
    return {
        "client": model.whose,
        "head": model.kind.value,
        "prior": _prior(model),
        "classes": model.classes,
        "transform": asdict(model.backbone.transform),
        "backbone": model.backbone.description,
        "weights-sha256": model.backbone.weights_sha256,
        "precision": model.precision,
        "step": model.step,
        **{
            f"{name}-sha256": recorded_sha256(project.artifact(name), name)
            for name in ("features", "server", "heads")
        },
    }
