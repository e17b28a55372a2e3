"""Stage ``extract``: one result whatever happens on the way, and sentences for what cannot work."""

import importlib.metadata
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from ruamel.yaml import YAML
from torch import nn

from pfl.artifacts.hdf5 import check, reading
from pfl.backbones.models import families
from pfl.backbones.models.backbone import Backbone
from pfl.backbones.models.families import load_backbone
from pfl.data.features.features import open_features
from pfl.data.features.fixed_point import dequantize
from pfl.data.images.images import ImageFiles, Images, PixelArray, write_images
from pfl.errors import InputError
from pfl.runtime import machine
from pfl.runtime.values import Device, Precision
from stages.extract import extract
from tests.workspace import ROOT

DEFAULTS = YAML(typ="safe").load((ROOT / "params.yaml").read_text())["extract"]
TINY = {"backbone": "random-tiny", "image-size": "auto", "batch-size": 4, "device": "cpu"}


def make_images(path, count):
    pixels = np.random.default_rng(0).integers(0, 256, (count, 16, 20, 3), dtype=np.uint8)
    write_images(path, PixelArray(pixels), {})
    return path


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("images") / "images.h5", 50)


@pytest.fixture
def call(images, tmp_path):
    """Run the stage in this process on small images; returns features.h5."""

    def run(**changes):
        flags = {
            "images": images,
            "out": tmp_path / "features.h5",
            "backbone": "random-tiny",
            "weights": tmp_path,
            "image_size": "auto",
            "feature_range": "auto",
            "batch_size": 4,
            "precision": Precision.fp32,
            "device": Device.cpu,
            "scratch": tmp_path / "scratch",
            **changes,
        }
        extract(**flags)
        return flags["out"]

    return run


def line(images, folder, name="features.h5", **changes):
    """The command that DVC runs, without the interpreter."""
    flags = [f"--{key}={value}" for key, value in {**DEFAULTS, **TINY, **changes}.items()]
    paths = {"images": images, "out": folder / name, "scratch": folder / "scratch"}
    return [*flags, *(f"--{key}={value}" for key, value in paths.items())]


def command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "stages.extract", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


class TestResult:
    def test_rows_are_the_backbone_s_features_by_sample_number(self, call, images, tmp_path):
        backbone = load_backbone("random-tiny", tmp_path)
        opened = Images(images)
        expected = backbone.features(backbone.transform.pixels(opened.rgb(0, 50))).numpy()
        with open_features(call()) as features:
            found = dequantize(features.rows(0, len(features)), features.step)
            assert features.step == 2.0**-12
            np.testing.assert_allclose(found, expected, atol=features.step)
        opened.close()

    def test_provenance_and_nothing_of_time_or_place(self, call, images, tmp_path):
        with reading(call(), "features") as file:
            facts = dict(file.attrs)
        assert facts["backbone"] == "random-tiny"
        assert (facts["precision"], facts["device"]) == ("fp32", "cpu")
        assert facts["images-sha256"] == check(images, "images")
        assert "version-pillow" not in facts  # Nothing was decoded.
        assert (facts["image-size"], facts["batch-size"], facts["saturated"]) == (32, 4, 0)
        assert len(facts["weights-sha256"]) == len(facts["images-sha256"]) == 64
        assert facts["version-torch"] == importlib.metadata.version("torch")
        assert str(tmp_path) not in str(facts)

    @pytest.mark.parametrize(
        ("flag", "value"),
        [
            ("image_size", "24"),
            ("feature_range", "100"),
            ("precision", Precision.bf16),
        ],
    )
    def test_each_parameter_changes_the_features(self, call, tmp_path, flag, value):
        one, two = call(), call(out=tmp_path / "other.h5", **{flag: value})
        with open_features(one) as a, open_features(two) as b:
            assert not np.array_equal(a.rows(0, 50), b.rows(0, 50))

    def test_scratch_is_gone_at_the_end(self, call, tmp_path):
        call()
        assert [path.name for path in (tmp_path / "scratch" / "extract").iterdir()] == ["lock"]

    def test_the_number_of_workers_does_not_change_a_byte(self, call, tmp_path, monkeypatch):
        every = call().read_bytes()
        monkeypatch.setattr(machine, "cores", lambda: 1)
        assert call(out=tmp_path / "one.h5").read_bytes() == every

    def test_saturation_is_counted_and_told(self, call, caplog):
        with caplog.at_level(logging.INFO):
            path = call(feature_range="0.5")
        with open_features(path) as features:
            rows = features.rows(0, 50)
            assert features.saturated == np.count_nonzero(np.abs(rows) == 32767) > 0
        advice = next(r.getMessage() for r in caplog.records if r.levelno == logging.WARNING
                      and "clipped" in r.getMessage())  # fmt: skip
        wanted = advice.split("at least ")[1].split()[0]
        caplog.clear()
        with open_features(call(feature_range=wanted)) as features:
            assert features.saturated == 0

    def test_a_range_far_too_wide_is_told_with_one_that_is_not(self, call, caplog):
        call(feature_range="1e20")
        (advice,) = (r.getMessage() for r in caplog.records if "lost most" in r.getMessage())
        caplog.clear()
        with open_features(call(feature_range=advice.split("about ")[1].rstrip("."))) as features:
            assert features.saturated == 0
            assert np.abs(features.rows(0, 50)).max() > 2**13
        assert "lost most" not in caplog.text

    def test_decoded_images_depend_on_pillow(self, call, tmp_path):
        pixels = np.random.default_rng(0).integers(0, 256, (16, 20, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "a.png")
        write_images(tmp_path / "encoded.h5", ImageFiles(tmp_path, ("a.png",)), {})
        with reading(call(images=tmp_path / "encoded.h5"), "features") as file:
            assert file.attrs["version-pillow"] == importlib.metadata.version("pillow")


class TestResumed:
    """What a stopped run left is taken up where the same would come out, and only there."""

    def stopped(self, call, monkeypatch, **changes):
        def stop(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("pfl.data.features.features.write_features", stop)
            call(**changes)

    def resumed(self, call, caplog, **changes):
        caplog.clear()
        with caplog.at_level(logging.INFO):
            call(**changes)
        return "Going on" in caplog.text

    def test_by_the_same_work(self, call, monkeypatch, caplog):
        self.stopped(call, monkeypatch)
        assert self.resumed(call, caplog)

    @pytest.mark.parametrize("changes", [{"batch_size": 5}, {"precision": Precision.bf16}])
    def test_not_with_other_parameters(self, call, monkeypatch, caplog, changes):
        self.stopped(call, monkeypatch)
        assert not self.resumed(call, caplog, **changes)

    def test_not_by_other_code(self, call, monkeypatch, caplog):
        self.stopped(call, monkeypatch)
        monkeypatch.setattr("pfl.runtime.scratch.code_sha256", lambda: "other")
        assert not self.resumed(call, caplog)

    @pytest.mark.parametrize("package", ["numpy", "timm", "torch", "torchvision", "pillow"])
    def test_not_with_other_versions(self, call, monkeypatch, caplog, tmp_path, package):
        Image.new("RGB", (9, 9), "red").save(tmp_path / "a.png")
        encoded = tmp_path / "encoded.h5"
        write_images(encoded, ImageFiles(tmp_path, ("a.png",)), {})
        self.stopped(call, monkeypatch, images=encoded)
        true = importlib.metadata.version
        other = lambda name: "0" if name == package else true(name)  # noqa: E731
        monkeypatch.setattr(importlib.metadata, "version", other)
        assert not self.resumed(call, caplog, images=encoded)


class TestRefusals:
    def refused(self, call, tmp_path, match, **changes):
        """It stops with a sentence and leaves an earlier artifact as it was."""
        (tmp_path / "features.h5").write_bytes(b"earlier")
        with pytest.raises(InputError, match=match):
            call(**changes)
        assert (tmp_path / "features.h5").read_bytes() == b"earlier"
        assert not list(tmp_path.glob("*.part"))

    def test_nan_features(self, call, tmp_path, monkeypatch):
        class Broken(nn.Module):
            def forward(self, x):
                return torch.full((len(x), 16), torch.nan)

        transform = load_backbone("random-tiny", tmp_path).transform
        broken = Backbone("x", Broken(), transform, 16, 6.0, "0", "")
        monkeypatch.setattr(families, "load_backbone", lambda *_: broken)
        self.refused(call, tmp_path, "NaN or infinite features for sample 0 ")

    def test_damaged_images(self, call, tmp_path, images):
        data = bytearray(images.read_bytes())
        opened = Images(images)
        data[data.index(opened.rgb(40, 41).tobytes())] ^= 1
        opened.close()
        (tmp_path / "images.h5").write_bytes(data)
        self.refused(
            call, tmp_path, r"images\.h5 is corrupt.*pixels", images=tmp_path / "images.h5"
        )

    def test_unknown_backbone(self, call, tmp_path):
        self.refused(call, tmp_path, "Unknown backbone 'random-tny'", backbone="random-tny")

    def test_missing_images(self, call, tmp_path):
        self.refused(call, tmp_path, "does not exist", images=tmp_path / "none.h5")

    def test_no_gpu(self, call, tmp_path, monkeypatch):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        self.refused(call, tmp_path, "no GPU", device=Device.cuda)

    @pytest.mark.parametrize(
        "wrong", [{"batch-size": "0"}, {"precision": "fp8"}, {"device": "tpu"}]
    )
    def test_wrong_flags_name_the_flag(self, images, tmp_path, wrong):
        done = command(*line(images, tmp_path, **wrong))
        assert done.returncode == 2
        assert f"--{next(iter(wrong))}" in done.stderr
        assert not (tmp_path / "features.h5").exists()

    @pytest.mark.parametrize("name", ["image-size", "feature-range"])
    @pytest.mark.parametrize("value", ["0", "big", "-1", "nan", "inf"])
    def test_wrong_values_name_the_key(self, images, tmp_path, name, value):
        done = command(*line(images, tmp_path, **{name: value}))
        assert done.returncode == 1
        assert f"extract.{name} is '{value}': it must be auto or" in done.stderr
        assert not (tmp_path / "features.h5").exists()

    def test_a_sentence_and_no_traceback(self, tmp_path):
        done = command(*line(tmp_path / "none.h5", tmp_path))
        assert done.returncode == 1
        assert "Error: " in done.stderr
        assert "Traceback" not in done.stderr


# The stage as DVC runs it, except that each batch of four images becomes a block of its own.
EAGER = """
import pfl.backbones.extraction.resume, runpy
pfl.backbones.extraction.resume.BLOCK_SECONDS = -1.0
runpy.run_module("stages.extract", run_name="__main__", alter_sys=True)
"""


@pytest.mark.slow
class TestKilled:
    def start(self, arguments):
        return subprocess.Popen(
            [sys.executable, "-c", EAGER, *arguments],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )

    def blocks(self, folder):
        return list((folder / "scratch").glob("extract/*/*.h5"))

    def children(self, parent):
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue  # it has ended meanwhile
            if int(fields[1]) == parent and fields[0] != "Z":
                found.append(int(stat.parent.name))
        return found

    def alive(self, process):
        try:
            return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False

    def wait_for(self, condition, seconds=60.0):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.005)

    def test_a_killed_run_leaves_nobody_and_ends_with_the_same_bytes(self, tmp_path):
        images = make_images(tmp_path / "images.h5", 2000)
        plain = command(*line(images, tmp_path, "plain.h5"))
        assert plain.returncode == 0, plain.stderr
        for wanted in (5, 150):
            process = self.start(line(images, tmp_path))
            self.wait_for(lambda n=wanted: len(self.blocks(tmp_path)) >= n)
            workers = self.children(process.pid)
            os.kill(process.pid, signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
            process.stderr.close()
            assert workers
            self.wait_for(lambda w=tuple(workers): not any(map(self.alive, w)), 3.0)
            assert not (tmp_path / "features.h5").exists()
        self.blocks(tmp_path)[7].write_bytes(b"half-written")
        kept = len(self.blocks(tmp_path)) - 1
        process = self.start(line(images, tmp_path))
        _, said = process.communicate()
        assert process.returncode == 0, said
        assert f"Going on: {4 * kept} of 2000 images" in said
        assert (tmp_path / "features.h5").read_bytes() == (tmp_path / "plain.h5").read_bytes()
        assert not self.blocks(tmp_path)

    def test_one_core_gives_the_same_bytes(self, tmp_path):
        images = make_images(tmp_path / "images.h5", 200)
        some = sorted(os.sched_getaffinity(0))
        if len(some) == 1:
            pytest.skip("this machine has one core, so there is nothing to compare")
        for name, allowed in (("all.h5", some), ("one.h5", some[:1])):
            done = command(
                *line(images, tmp_path, name),
                preexec_fn=lambda a=tuple(allowed): os.sched_setaffinity(0, a),
            )
            assert done.returncode == 0, done.stderr
        assert (tmp_path / "all.h5").read_bytes() == (tmp_path / "one.h5").read_bytes()
