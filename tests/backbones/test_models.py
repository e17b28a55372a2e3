"""Backbones: the right weights or a sentence, the model's own transform, honest ranges."""

import logging
import os
import shutil
import unicodedata
import urllib.error
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import timm
import torch
from PIL import Image
from timm.data import create_transform, resolve_model_data_config
from torch import nn
from torchvision.models import MobileNet_V2_Weights, mobilenet_v2
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as F

from pfl.backbones.models import backbone as backbone_module
from pfl.backbones.models import families, weights
from pfl.backbones.models.backbone import DEFAULT_RANGE, frozen
from pfl.backbones.models.families import load_backbone
from pfl.backbones.models.transform import OBLONG, Transform, configured
from pfl.errors import InputError

CONFIG = {
    "input_size": (3, 224, 224),
    "crop_pct": 0.875,
    "crop_mode": "center",
    "interpolation": "bicubic",
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
}


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """No test reaches a network or depends on what caches hold."""

    def refuse(*_args, **_kwargs):
        raise urllib.error.URLError("no network in tests")

    monkeypatch.setattr(weights.urllib.request, "urlopen", refuse)
    monkeypatch.setattr(weights.huggingface_hub, "try_to_load_from_cache", lambda *_: None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch-home"))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "weights").mkdir()
    return tmp_path / "weights"


def save_timm(name, path, **options):
    model = timm.create_model(name, **options)
    safetensors.torch.save_file(model.state_dict(), path)
    return model.eval()


def pixels(size, count=2):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8, generator=generator)


class TestLite0:
    def test_packaged_weights_make_timm_s_model(self, folder):
        loaded = load_backbone("tf_efficientnet_lite0", folder, 96)
        assert (loaded.m, loaded.feature_range) == (1280, 6.0)
        assert loaded.weights_sha256.startswith("57934424")
        assert loaded.transform.mean == loaded.transform.std == (0.5, 0.5, 0.5)
        assert (loaded.transform.size, loaded.transform.resize) == (96, 109)
        assert not loaded.module.training
        assert not any(p.requires_grad for p in loaded.module.parameters())
        stored = list(torch.load(weights.packaged_lite0(), weights_only=True).values())
        first, last = stored[0], stored[-3]  # the last two are the classifier's
        filled = list(loaded.module.state_dict().values())
        assert torch.equal(filled[0], first)
        assert torch.equal(filled[-1], last)

    def test_a_damaged_package_is_noticed(self, monkeypatch, folder, tmp_path):
        copy = tmp_path / "package" / "models" / weights.packaged_lite0().name
        copy.parent.mkdir(parents=True)
        shutil.copy(weights.packaged_lite0(), copy)
        with copy.open("r+b") as stream:
            stream.seek(1_000_000)
            stream.write(b"damage")
        spec = type("Spec", (), {"origin": str(copy.parents[1] / "__init__.py")})
        monkeypatch.setattr(weights.importlib.util, "find_spec", lambda _: spec)
        with pytest.raises(InputError, match="SHA-256 begins with"):
            load_backbone("tf_efficientnet_lite0", folder, 96)

    def test_the_folder_goes_before_the_package(self, folder):
        save_timm("tf_efficientnet_lite0", folder / "tf_efficientnet_lite0.safetensors")
        loaded = load_backbone("tf_efficientnet_lite0", folder, 64)
        assert not loaded.weights_sha256.startswith("57934424")


class TestTimm:
    @pytest.mark.parametrize("saved", [{}, {"num_classes": 7}, {"num_classes": 0}])
    def test_any_head_is_accepted_and_left_out(self, folder, saved):
        model = save_timm("test_vit", folder / "test_vit.safetensors", **saved)
        model.reset_classifier(0)
        loaded = load_backbone("test_vit", folder)
        x = pixels(loaded.transform.size)
        with torch.inference_mode():
            expected = model(loaded.transform.normalize(x))
        torch.testing.assert_close(loaded.features(x), expected)

    def test_formats_give_the_same_features(self, folder, tmp_path):
        model = save_timm("test_resnet", folder / "test_resnet.safetensors")
        nested = tmp_path / "any-name.pth"
        torch.save({"model": {f"module.{k}": v for k, v in model.state_dict().items()}}, nested)
        one, two = load_backbone("test_resnet", folder), load_backbone("test_resnet", nested)
        x = pixels(one.transform.size)
        assert torch.equal(one.features(x), two.features(x))

    @pytest.mark.parametrize("name", ["model_state_dict", "net", "weights"])
    def test_tensors_under_a_name_of_their_own_are_found(self, folder, tmp_path, name):
        model = save_timm("test_resnet", folder / "test_resnet.safetensors")
        tensors = {f"module.{k}": v for k, v in model.state_dict().items()}
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9).state_dict()
        kept = {"epoch": 3, "optimizer": optimizer, "loss": torch.tensor(0.5), name: tensors}
        torch.save(kept, tmp_path / "nested.pth")
        one = load_backbone("test_resnet", folder)
        two = load_backbone("test_resnet", tmp_path / "nested.pth")
        x = pixels(one.transform.size)
        assert torch.equal(one.features(x), two.features(x))

    def test_of_several_sets_of_tensors_none_is_guessed(self, tmp_path):
        state = timm.create_model("test_resnet").state_dict()
        torch.save({"student": state, "teacher": state}, tmp_path / "two.pth")
        with pytest.raises(InputError, match=r"sets of tensors: student, teacher\): .* alone"):
            load_backbone("test_resnet", tmp_path / "two.pth")
        torch.save({"epoch": 3}, tmp_path / "none.pth")
        with pytest.raises(InputError, match="it holds no named tensors"):
            load_backbone("test_resnet", tmp_path / "none.pth")

    def test_a_decoder_in_the_file_is_ignored(self, tmp_path):
        model = timm.create_model("test_vit", num_classes=0)
        state = {**model.state_dict(), "mask_token": torch.zeros(1), "decoder_x": torch.zeros(2)}
        torch.save(state, tmp_path / "mae.pth")
        assert load_backbone("test_vit", tmp_path / "mae.pth").m == model.num_features

    def test_a_fixed_size_model_takes_another_size(self, folder):
        save_timm("test_vit", folder / "test_vit.safetensors")
        own, other = load_backbone("test_vit", folder), load_backbone("test_vit", folder, 96)
        assert own.transform.size != other.transform.size == 96
        assert other.features(pixels(96)).shape == (2, own.m)

    def test_a_file_is_found_whichever_way_its_name_is_typed(self, tmp_path):
        one, two = (unicodedata.normalize(form, "poids-entraînés") for form in ("NFC", "NFD"))
        save_timm("test_resnet", tmp_path / f"{two}.safetensors")
        assert load_backbone("test_resnet", tmp_path / f"{one}.safetensors").m == 96

    @pytest.mark.slow
    def test_the_paper_s_encoder(self, folder):
        name = "vit_base_patch16_224.mae"
        save_timm(name, folder / f"{name}.safetensors")
        loaded = load_backbone(name, folder)
        assert loaded.m == 768
        assert (loaded.transform.size, loaded.transform.resize) == (224, 248)
        assert loaded.transform.interpolation == "bicubic"
        assert loaded.feature_range == pytest.approx(768**0.5)


class TestMobileNet:
    def test_pooled_features_and_the_official_transform(self, tmp_path):
        model = mobilenet_v2().eval()
        torch.save(model.state_dict(), tmp_path / "own.pth")
        loaded = load_backbone("mobilenet_v2", tmp_path / "own.pth", 64)
        assert (loaded.m, loaded.feature_range) == (1280, 6.0)
        assert (loaded.transform.resize, loaded.transform.interpolation) == (73, "bilinear")
        x = pixels(64)
        with torch.inference_mode():
            expected = model.features(loaded.transform.normalize(x)).mean((2, 3))
        torch.testing.assert_close(loaded.features(x), expected)

    def test_an_official_name_with_other_content_is_refused(self, tmp_path):
        path = tmp_path / Path(MobileNet_V2_Weights.IMAGENET1K_V2.url).name
        torch.save(mobilenet_v2().state_dict(), path)
        with pytest.raises(InputError, match="SHA-256 begins with"):
            load_backbone("mobilenet_v2", path)

    @pytest.mark.parametrize(("release", "resize"), [("V1", 256), ("V2", 232)])
    def test_each_official_file_has_its_own_resize(self, monkeypatch, tmp_path, release, resize):
        torch.save(mobilenet_v2().state_dict(), tmp_path / "own.pth")
        digits = Path(MobileNet_V2_Weights[f"IMAGENET1K_{release}"].url).stem[-8:]
        monkeypatch.setattr(families, "file_sha256", lambda _: digits + "0" * 56)
        assert load_backbone("mobilenet_v2", tmp_path / "own.pth").transform.resize == resize


class TestRandomTiny:
    def test_it_is_the_same_every_time_and_says_what_it_is(self, folder, caplog):
        with caplog.at_level(logging.WARNING):
            one, two = (load_backbone("random-tiny", folder) for _ in range(2))
        assert one.weights_sha256 == two.weights_sha256
        assert torch.equal(one.features(pixels(32)), two.features(pixels(32)))
        assert "for tests only" in caplog.text

    def test_it_tells_images_apart(self, folder):
        features = load_backbone("random-tiny", folder).features(pixels(32))
        assert (features[0] != features[1]).any()


class TestRefusals:
    def test_unknown_names_get_close_matches(self, folder):
        with pytest.raises(InputError, match=r"did you mean .*resnet50\b"):
            load_backbone("resnte50", folder)
        with pytest.raises(InputError, match=r"vit_base_patch16_224\.mae"):
            load_backbone("vit_base_patch16_224.mea", folder)

    @pytest.mark.parametrize("name", ["vit_base_patch16_224.mae", "mobilenet_v2", "gcvit_base"])
    def test_without_weights_every_place_and_the_remedy_are_named(self, folder, name):
        with pytest.raises(InputError) as refused:
            load_backbone(name, folder)
        for part in (str(folder / name), "no network in tests", "Download https://", "run again"):
            assert part in str(refused.value)

    def test_a_model_without_any_weights_says_so(self, folder):
        with pytest.raises(InputError, match="Nobody offers weights"):
            load_backbone("resnetv2_152", folder)

    def test_a_path_that_does_not_exist(self, tmp_path):
        with pytest.raises(InputError, match=r"typo\.pth.*does not exist"):
            load_backbone("test_vit", tmp_path / "typo.pth")
        os.mkfifo(tmp_path / "pipe.pth")
        with pytest.raises(InputError, match=r"pipe\.pth.*is no regular file"):
            load_backbone("test_vit", tmp_path / "pipe.pth")

    @pytest.mark.parametrize("suffix", ["pth", "safetensors"])
    @pytest.mark.parametrize("content", [b"", b"no weights at all" * 100])
    def test_files_that_hold_no_weights(self, tmp_path, suffix, content):
        path = tmp_path / f"x.{suffix}"
        path.write_bytes(content)
        with pytest.raises(InputError, match=rf"x\.{suffix} cannot be read as weights"):
            load_backbone("test_vit", path)

    def test_code_in_a_file_is_not_run(self, tmp_path):
        torch.save(nn.Linear(1, 1), tmp_path / "x.pth")  # a pickled object, not tensors
        with pytest.raises(InputError, match="cannot be read as weights"):
            load_backbone("test_vit", tmp_path / "x.pth")

    @pytest.mark.parametrize("name", ["test_vit", "mobilenet_v2", "tf_efficientnet_lite0"])
    def test_weights_of_another_model(self, tmp_path, name):
        save_timm("test_resnet", tmp_path / "x.safetensors")
        with pytest.raises(InputError, match=f"do not fit backbone '{name}'.*Missing"):
            load_backbone(name, tmp_path / "x.safetensors")

    def test_one_missing_tensor(self, tmp_path):
        state = timm.create_model("test_vit").state_dict()
        del state["norm.bias"]
        torch.save(state, tmp_path / "x.pth")
        with pytest.raises(InputError, match=r"norm\.bias"):
            load_backbone("test_vit", tmp_path / "x.pth")

    def test_a_size_that_the_model_cannot_take(self, folder):
        save_timm("test_vit", folder / "test_vit.safetensors")
        with pytest.raises(InputError, match="image-size"):
            load_backbone("test_vit", folder, 3)

    def test_a_size_beyond_reason(self, folder):
        with pytest.raises(InputError, match=r"1 … 4096"):
            load_backbone("random-tiny", folder, 5000)


class TestHub:
    def test_a_cached_file_is_used(self, monkeypatch, folder, tmp_path):
        save_timm("test_vit", tmp_path / "cached.safetensors")
        monkeypatch.setattr(
            weights.huggingface_hub,
            "try_to_load_from_cache",
            lambda *_: str(tmp_path / "cached.safetensors"),
        )
        assert load_backbone("test_vit", folder).weights_sha256 == weights.file_sha256(
            tmp_path / "cached.safetensors"
        )

    def test_a_download_is_checked_against_its_name(self, monkeypatch, folder, tmp_path):
        (tmp_path / "served").write_bytes(b"not the file")
        monkeypatch.setattr(
            weights.urllib.request, "urlopen", lambda *_, **__: (tmp_path / "served").open("rb")
        )
        with pytest.raises(InputError, match="SHA-256 begins with"):
            load_backbone("mobilenet_v2", folder)

    def test_offline_mode_is_named(self, monkeypatch, folder):
        monkeypatch.setattr(weights.huggingface_hub.constants, "HF_HUB_OFFLINE", True)
        with pytest.raises(InputError, match="HF_HUB_OFFLINE"):
            load_backbone("test_vit", folder)


class TestRange:
    def loaded(self, *layers):
        module = nn.Sequential(nn.Flatten(), *layers)
        return frozen("x", module, configured(CONFIG, 4), "0", "")

    def test_relu6_ends_at_six(self):
        assert self.loaded(nn.Linear(48, 5), nn.ReLU6(), nn.Dropout()).feature_range == 6.0

    def test_no_input_exceeds_the_bound_of_layernorm(self):
        norm = nn.LayerNorm(48)
        generator = torch.Generator().manual_seed(0)
        nn.init.normal_(norm.weight, generator=generator)
        nn.init.normal_(norm.bias, generator=generator)
        bound = self.loaded(norm).feature_range
        spike = 1e4 * torch.eye(48)[[int(norm.weight.abs().argmax())]]
        worst = max(float(norm(sign * spike).abs().max()) for sign in (1, -1))
        assert 0.8 * bound < worst <= bound

    def test_anything_else_gets_the_default(self):
        assert self.loaded(nn.Linear(48, 5)).feature_range == DEFAULT_RANGE

    def test_a_bound_that_a_trial_breaks_is_not_believed(self):
        assert backbone_module._bound(nn.ReLU6(), seen=6.5) == DEFAULT_RANGE

    def test_the_parameter_wins(self, folder):
        assert load_backbone("random-tiny", folder, feature_range=2.5).feature_range == 2.5


class TestTransform:
    def test_it_is_timm_s_own_evaluation_transform(self):
        rng = np.random.default_rng(0)
        small = Image.fromarray(rng.integers(0, 256, (24, 30, 3), dtype=np.uint8))
        image = small.resize((300, 240), Image.Resampling.BICUBIC)
        model = timm.create_model("tf_efficientnet_lite0")
        config = resolve_model_data_config(model)
        ours = configured(config, None)
        result = ours.normalize(ours.pixels(np.array(image)[None]))[0]
        expected = create_transform(**config)(image)
        # Both round to 8 bits in each of two passes, in different libraries.
        levels = (result - expected).abs() * 255 * 0.5
        assert levels.max() < 2.1
        assert levels.mean() < 0.05

    def test_a_list_of_equal_images_is_the_array(self):
        images = np.random.default_rng(0).integers(0, 256, (3, 20, 26, 3), dtype=np.uint8)
        transform = configured(CONFIG, 16)
        assert torch.equal(transform.pixels(images), transform.pixels(list(images)))

    def test_images_of_many_sizes(self):
        rng = np.random.default_rng(0)
        sizes = [(20, 26), (1, 1), (100, 7)]
        images = [rng.integers(0, 256, (*size, 3), dtype=np.uint8) for size in sizes]
        result = configured(CONFIG, 16).pixels(images)
        assert result.shape == (3, 3, 16, 16)
        assert result.is_contiguous(memory_format=torch.channels_last)

    @pytest.mark.parametrize("upright", [False, True])
    def test_the_ends_of_very_oblong_images_are_cut_off_and_others_are_as_ever(self, upright):
        transform = configured(CONFIG, 16)
        rng = np.random.default_rng(0)
        image = rng.integers(0, 256, (3, 3 * OBLONG, 3), dtype=np.uint8)
        ends = rng.integers(0, 256, (3, 10**6, 3), dtype=np.uint8)
        longer = np.concatenate([ends, image, ends], axis=1)
        if upright:
            image, longer = image.swapaxes(0, 1).copy(), longer.swapaxes(0, 1).copy()
        plain = F.resize(
            torch.from_numpy(image).permute(2, 0, 1),
            [transform.resize],
            InterpolationMode(transform.interpolation),
            antialias=True,
        )
        found = transform.pixels([image, longer])
        assert torch.equal(found[0], F.center_crop(plain, [16, 16]))
        assert torch.equal(found[1], found[0])

    def test_normalization_is_the_textbook_one(self):
        transform = configured(CONFIG, 8)
        x = pixels(8)
        mean = torch.tensor(CONFIG["mean"]).view(3, 1, 1)
        std = torch.tensor(CONFIG["std"]).view(3, 1, 1)
        torch.testing.assert_close(transform.normalize(x), (x / 255 - mean) / std)

    def test_squash_keeps_the_whole_image(self):
        squash = configured({**CONFIG, "crop_mode": "squash", "crop_pct": 1.0}, 8)
        image = np.zeros((8, 80, 3), np.uint8)
        image[:, 40:] = 255
        result = squash.pixels(image[None])[0, 0, 4]
        assert result[:3].max() == 0
        assert result[5:].min() == 255

    def test_oblong_models_need_a_size(self):
        with pytest.raises(InputError, match=r"224 × 160 pixels.*image-size"):
            configured({**CONFIG, "input_size": (3, 224, 160)}, None)
        assert isinstance(configured({**CONFIG, "input_size": (3, 224, 160)}, 64), Transform)
