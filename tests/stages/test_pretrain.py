"""The stages public and pretrain, and what they make as a backbone."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from pfl.backbones.models.families import load_backbone
from pfl.backbones.pretraining import training
from pfl.backbones.pretraining.data import load_public_data
from pfl.data.images.images import PixelArray, Sites, open_images, write_images
from pfl.data.images.site_shift import Kind, Skew
from pfl.data.samples.index import read_index
from pfl.data.sources.duplicates import hashes_of_artifact
from pfl.errors import InputError
from pfl.runtime.values import Device, Precision
from stages.pretrain import pretrain
from stages.public import public
from tests.tiny import pfl
from tests.workspace import ROOT

SETTINGS = {
    "image_size": 8, "patch_size": 2, "width": 8, "depth": 1, "heads": 2, "decoder_width": 4,
    "decoder_depth": 1, "decoder_heads": 1, "epochs": 2, "warmup_epochs": 1.0, "batch_size": 16,
    "probe_every": 1, "device": Device.cpu, "precision": Precision.fp32,
}  # fmt: skip


def pictures(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)


def clients_artifact(path, pixels, sites=None):
    write_images(path, PixelArray(pixels), {}, sites)
    return path


def npz(path, pixels, labels=None):
    labels = np.arange(len(pixels)) % 2 if labels is None else labels
    np.savez(path, x_train=pixels, y_train=labels)
    return path


def make_public(folder, path, clients, name="npz"):
    public(name, path, False, 0.25, 0, clients, folder / "images.h5", folder / "index.h5")
    return folder


def make_encoder(folder, source, **changes):
    params = yaml.safe_load((ROOT / "params.yaml").read_text())["pretrain"]
    values = {name.replace("-", "_"): value for name, value in params.items()}
    out = folder / "encoder.safetensors"
    files = {"images": source / "images.h5", "index": source / "index.h5"}
    pretrain(**files, report=folder / "report", out=out, scratch=folder / ".scratch",
             **{**values, **SETTINGS, **changes})  # fmt: skip
    return out


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("public")
    clients = clients_artifact(folder / "clients.h5", pictures(5, seed=9))
    return make_public(folder, npz(folder / "x.npz", pictures(60)), clients)


@pytest.fixture(scope="module")
def made(tmp_path_factory, source):
    folder = tmp_path_factory.mktemp("made")
    make_encoder(folder, source)
    return folder


class TestPublic:
    @pytest.mark.parametrize("skewed", [False, True])
    def test_images_of_the_clients_are_left_out(self, tmp_path, caplog, skewed):
        """Also where sites see them otherwise: the picture is the same."""
        pixels, clients = pictures(40), pictures(6, seed=1)
        clients[[0, 3]] = pixels[[7, 20]]
        sites = Sites(np.arange(6) % 2, Skew(Kind("color"), 1.0, 2, 0)) if skewed else None
        held = clients_artifact(tmp_path / "clients.h5", clients, sites)
        with caplog.at_level(logging.INFO):
            folder = make_public(tmp_path, npz(tmp_path / "x.npz", pixels), held)
        assert "2 of 40 public images are images of the clients too" in caplog.text
        with open_images(folder / "images.h5") as kept, open_images(held) as others:
            hashes = list(hashes_of_artifact(kept))
            assert len(hashes) == 38
            assert not set(hashes) & set(hashes_of_artifact(others))
            left = {image.tobytes() for image in kept.rgb(0, 38)}
        assert left == {pixels[i].tobytes() for i in range(40) if i not in (7, 20)}

    def test_labels_stay_with_their_images(self, tmp_path):
        pixels = pictures(40)
        labels = np.random.default_rng(5).integers(0, 3, 40)
        labels[:3] = range(3)
        held = clients_artifact(tmp_path / "clients.h5", pixels[10:20])
        folder = make_public(tmp_path, npz(tmp_path / "x.npz", pixels, labels), held)
        index = read_index(folder / "index.h5")
        of = {image.tobytes(): label for image, label in zip(pixels, labels, strict=True)}
        with open_images(folder / "images.h5") as kept:
            assert [of[image.tobytes()] for image in kept.rgb(0, 30)] == index.label.tolist()
        assert (np.diff(index.split) >= 0).all()

    def test_a_grey_image_is_its_rgb_version_and_a_file_its_pixels(self, tmp_path, caplog):
        grey = np.repeat(pictures(8)[..., :1], 3, axis=3)
        held = clients_artifact(tmp_path / "clients.h5", grey[:3, ..., :1])
        (tmp_path / "photos" / "any").mkdir(parents=True)
        for number, image in enumerate(grey):
            Image.fromarray(image).save(tmp_path / "photos" / "any" / f"{number}.png")
        with caplog.at_level(logging.INFO):
            folder = make_public(tmp_path, tmp_path / "photos", held, "unlabelled")
        assert "3 of 8 public images" in caplog.text
        index = read_index(folder / "index.h5")
        assert index.train.all()
        assert index.classes == ("unlabelled",)

    def test_what_leaves_nothing_is_refused(self, tmp_path):
        pixels = pictures(8)
        held, path = clients_artifact(tmp_path / "c.h5", pixels), npz(tmp_path / "x.npz", pixels)
        with pytest.raises(InputError, match="None of 8 public images is left"):
            make_public(tmp_path, path, held)
        with pytest.raises(InputError, match=r"'imagenet'.*unlabelled.*cifar100"):
            make_public(tmp_path, path, held, "imagenet")
        with pytest.raises(InputError, match=r"public\.path"):
            make_public(tmp_path, tmp_path / "nowhere", held, "unlabelled")


class TestPretrain:
    def test_it_reports_and_is_the_same_again(self, made, source, tmp_path):
        make_encoder(tmp_path, source)
        names = ["curve.png", "curve.svg", "epochs.csv", "metrics.json", "reconstruction.png",
                 "reconstruction.svg"]  # fmt: skip
        assert sorted(path.name for path in (made / "report").iterdir()) == names
        for name in ("encoder.safetensors", *(f"report/{name}" for name in names)):
            assert (tmp_path / name).read_bytes() == (made / name).read_bytes()
        lines = (made / "report" / "epochs.csv").read_text().splitlines()
        assert lines[0] == "epoch,loss,learning-rate,probe"
        assert [line.split(",")[0] for line in lines[1:]] == ["0", "1", "2"]
        told = json.loads((made / "report" / "metrics.json").read_text())
        assert told["images"] == 45
        assert 0 <= told["probe"] <= 1

    def test_a_stopped_stage_goes_on_to_the_same_bytes(self, made, source, tmp_path, monkeypatch):
        original = training.train_epoch

        def stopping(learner, images, recipe, number):
            if number == 2:
                raise KeyboardInterrupt
            return original(learner, images, recipe, number)

        with monkeypatch.context() as patch:
            patch.setattr(training, "train_epoch", stopping)
            with pytest.raises(KeyboardInterrupt):
                make_encoder(tmp_path, source)
        assert list(tmp_path.glob(".scratch/*/*/state.safetensors"))
        out = make_encoder(tmp_path, source)
        assert out.read_bytes() == (made / out.name).read_bytes()
        assert not list(tmp_path.glob(".scratch/*/*/state.safetensors"))

    def test_without_labels_there_is_no_probe(self, tmp_path):
        held = clients_artifact(tmp_path / "clients.h5", pictures(2, seed=9))
        (tmp_path / "photos").mkdir()
        for number, image in enumerate(pictures(20)):
            Image.fromarray(image).save(tmp_path / "photos" / f"{number}.png")
        source = make_public(tmp_path, tmp_path / "photos", held, "unlabelled")
        make_encoder(tmp_path, source, epochs=1, warmup_epochs=0.0)
        told = json.loads((tmp_path / "report" / "metrics.json").read_text())
        assert told["probe"] is None
        assert told["loss"] > 0

    def test_files_of_different_runs_are_refused(self, source, tmp_path):
        held = clients_artifact(tmp_path / "clients.h5", pictures(2, seed=9))
        make_public(tmp_path, npz(tmp_path / "x.npz", pictures(60, seed=3)), held)
        (tmp_path / "index.h5").write_bytes((source / "index.h5").read_bytes())
        with pytest.raises(InputError, match="belong to different runs"):
            make_encoder(tmp_path, tmp_path)


class TestBackbone:
    def pixels(self, size):
        shape = (3, 3, size, size)
        return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator())

    def test_it_is_a_backbone_like_any_other(self, made, tmp_path):
        path = made / "encoder.safetensors"
        one, two = load_backbone("mae", path), load_backbone("mae", path)
        assert (one.m, one.transform.size, one.transform.resize) == (8, 8, 8)
        assert torch.equal(one.features(self.pixels(8)), two.features(self.pixels(8)))
        assert (one.features(self.pixels(8)).abs() <= one.feature_range).all()
        assert one.weights_sha256 == two.weights_sha256
        assert "2 epochs on 45 images" in one.description
        (tmp_path / "mae.safetensors").write_bytes(path.read_bytes())
        assert load_backbone("mae", tmp_path).weights_sha256 == one.weights_sha256

    def test_it_takes_images_of_another_size(self, made):
        loaded = load_backbone("mae", made / "encoder.safetensors", 12)
        assert loaded.features(self.pixels(12)).isfinite().all()
        with pytest.raises(InputError, match="multiple of 2"):
            load_backbone("mae", made / "encoder.safetensors", 9)

    def test_its_features_are_those_of_the_probe(self, made, source):
        """So the pipeline's accuracy is about what was measured during training."""
        loaded = load_backbone("mae", made / "encoder.safetensors")
        files = (source / "images.h5", source / "index.h5")
        data = load_public_data(*files, 8, torch.device("cpu"))
        with open_images(files[0]) as opened:
            pixels = loaded.transform.pixels(opened.rgb(0, 45))
        seen = data.train.batch(slice(None))
        assert torch.allclose(loaded.transform.normalize(pixels), seen, atol=1e-5)

    def test_raw_pixels_are_features(self, tmp_path):
        loaded = load_backbone("raw-pixels", tmp_path, 4)
        black, white = (torch.full((1, 3, 4, 4), v, dtype=torch.uint8) for v in (0, 255))
        assert loaded.m == 48
        assert torch.allclose(loaded.features(black), -torch.ones(1, 48))
        assert torch.allclose(loaded.features(white), torch.ones(1, 48))

    def test_wrong_files_are_refused_in_a_sentence(self, tmp_path, made):
        with pytest.raises(InputError, match=r"No weights for 'mae'.*docs/pretraining\.md"):
            load_backbone("mae", tmp_path)
        (tmp_path / "x.safetensors").write_bytes(b"no tensors")
        with pytest.raises(InputError, match="is no encoder that `pretrain` has made"):
            load_backbone("mae", tmp_path / "x.safetensors")
        with pytest.raises(InputError, match=r"extract\.weights to data/x\.safetensors"):
            load_backbone("mae:data/x.safetensors", tmp_path)

    def test_inspect_tells_what_it_is(self, made):
        done = pfl("inspect", made / "encoder.safetensors", "--json")
        assert done.exit_code == 0, done.output
        told = json.loads(done.stdout)
        assert told["made-by"] == "pretrain"
        assert told["architecture"]["width"] == 8
        assert pfl("inspect", Path(made / "encoder.safetensors")).exit_code == 0
