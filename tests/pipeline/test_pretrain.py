"""Pretraining in the pipeline: off by default, one value turns it on, and extract waits for it."""

import numpy as np
import pytest
import yaml
from PIL import Image

from tests.workspace import ROOT, change, command, copy_project, ran

pytestmark = pytest.mark.slow

RESULT = "data/pretrained/unlabelled.safetensors"
ON = {
    "pretraining.datasets": ["unlabelled"],
    "public.path": "photos",
    "extract.backbone": "mae",
    "extract.weights": RESULT,
    "extract.image-size": "auto",
    "pretrain.image-size": 8,
    "pretrain.width": 8,
    "pretrain.heads": 2,
    "pretrain.depth": 1,
    "pretrain.decoder-width": 4,
    "pretrain.decoder-heads": 1,
    "pretrain.epochs": 1,
    "pretrain.warmup-epochs": 0.0,
    "pretrain.batch-size": 8,
    "pretrain.device": "cpu",
}
NEW = ["public@unlabelled", "pretrain@unlabelled"]


def test_it_is_off_by_default():
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    assert params["pretraining"] == {"datasets": []}


def test_one_list_turns_it_on_and_extract_uses_the_result(tmp_path):
    copy_project(tmp_path)
    (tmp_path / "photos").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / "photos" / f"{number}.png")
    assert ran(command(tmp_path, "dvc", "repro", "extract")) == ["prepare", "extract"]
    change(tmp_path, ON)
    assert ran(command(tmp_path, "dvc", "repro", "extract")) == [*NEW, "extract"]
    result = (tmp_path / RESULT).read_bytes()
    # Other images of the clients: the public ones are compared again, and stay the same.
    change(tmp_path, {"prepare.seed": 1})
    again = ran(command(tmp_path, "dvc", "repro", "extract"))
    assert again == ["prepare", "public@unlabelled", "extract"]
    assert (tmp_path / RESULT).read_bytes() == result
    change(tmp_path, {"pretrain.seed": 1})
    assert ran(command(tmp_path, "dvc", "repro", "extract")) == ["pretrain@unlabelled", "extract"]
    assert (tmp_path / RESULT).read_bytes() != result
