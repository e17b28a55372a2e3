"""Embedding: the features of each image, whatever the workers, the blocks or the interruptions."""

import multiprocessing
import os
import signal

import numpy as np
import pytest
import torch
from torch import nn

from pfl.artifacts.hdf5 import create, put
from pfl.backbones.extraction import resume
from pfl.backbones.extraction.blocks import load_blocks, read_blocks, write_block
from pfl.backbones.extraction.compute import Work, _embedded, embed
from pfl.backbones.extraction.resume import extract_blocks
from pfl.backbones.models.backbone import Backbone
from pfl.backbones.models.families import load_backbone
from pfl.data.features.features import open_features, write_features
from pfl.data.features.fixed_point import Quantized, quantize
from pfl.data.images.images import ImageFiles, Images, PixelArray, write_images
from pfl.errors import InputError

N, BATCH, M = 53, 8, 16
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    path = tmp_path_factory.mktemp("images") / "images.h5"
    pixels = np.random.default_rng(0).integers(0, 256, (N, 20, 24, 3), dtype=np.uint8)
    write_images(path, PixelArray(pixels), {})
    opened = Images(path)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return load_backbone("random-tiny", tmp_path_factory.mktemp("none"))


@pytest.fixture
def work(images, tiny):
    return Work(images, tiny, 2.0**-12, BATCH, "fp32", CPU)


def with_module(work, module):
    return Work(
        work.images,
        Backbone("x", module, work.backbone.transform, M, 6.0, "0", ""),
        work.step,
        work.batch,
        work.precision,
        work.device,
    )


@pytest.fixture
def expected(work):
    """All features, one image at a time, in this process."""
    rows = []
    for sample in range(N):
        pixels = work.backbone.transform.pixels(work.images.rgb(sample, sample + 1))
        rows.append(quantize(work.backbone.features(pixels).numpy(), work.step).values)
    return np.concatenate(rows)


def stacked(pieces):
    return np.concatenate([piece.values for piece in pieces])


class Poison(nn.Module):
    """NaN for the batch that holds one marked image."""

    def __init__(self, mark):
        super().__init__()
        self.mark = mark

    def forward(self, x):
        bad = (x == self.mark).flatten(1).all(1)
        return torch.where(bad, torch.nan, 1.0)[:, None].expand(-1, M)


class Suicide(nn.Module):
    """A network that the system kills."""

    def forward(self, x):
        os.kill(os.getpid(), signal.SIGKILL)
        return x


class TestEmbed:
    def test_each_row_is_the_feature_of_its_image(self, work, expected):
        found = stacked(embed(work, range(work.batches), 2))
        # Batches of other sizes may sum in another order, which can move a rounding by one.
        assert np.abs(found.astype(int) - expected).max() <= 1
        assert len(np.unique(found, axis=0)) == N

    @pytest.mark.parametrize("precision", ["fp32", "bf16"])
    def test_workers_do_not_change_a_bit(self, images, tiny, precision):
        work = Work(images, tiny, 2.0**-12, BATCH, precision, CPU)
        results = [stacked(embed(work, range(work.batches), k)) for k in (1, 2)]
        assert np.array_equal(results[0], results[1])

    def test_bf16_is_another_but_close_result(self, images, tiny):
        one, two = (
            stacked(embed(Work(images, tiny, 2.0**-12, BATCH, p, CPU), [0], 1)) * 2.0**-12
            for p in ("fp32", "bf16")
        )
        assert not np.array_equal(one, two)
        np.testing.assert_allclose(one, two, atol=0.1)

    def test_any_batches_in_the_order_asked(self, work):
        every = list(embed(work, range(work.batches), 2))
        some = list(embed(work, [4, 1, 6], 2))
        for number, piece in zip([4, 1, 6], some, strict=True):
            assert np.array_equal(piece.values, every[number].values)

    def test_the_way_a_gpu_is_fed_gives_the_same(self, work):
        """Workers decode and this process runs the model; here on the CPU, for want of a GPU."""
        every = range(work.batches)
        found = stacked(_embedded(work, every, 2, finish=False))
        assert np.array_equal(found, stacked(embed(work, every, 2)))

    def test_files_of_many_sizes(self, tmp_path, tiny):
        from PIL import Image

        rng = np.random.default_rng(1)
        names = [f"{i}.png" for i in range(5)]
        for i, name in enumerate(names):
            pixels = rng.integers(0, 256, (10 + i, 30 - i, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / name)
        write_images(tmp_path / "images.h5", ImageFiles(tmp_path, tuple(names)), {})
        work = Work(Images(tmp_path / "images.h5"), tiny, 2.0**-12, 2, "fp32", CPU)
        found = stacked(embed(work, range(3), 2))
        assert found.shape == (5, M)
        assert len(np.unique(found, axis=0)) == 5

    def test_nan_is_refused_with_the_name_of_the_sample(self, tmp_path, work):
        pixels = np.random.default_rng(0).integers(0, 255, (N, 32, 32, 3), dtype=np.uint8)
        pixels[37] = 255  # 1.0 after normalization
        write_images(tmp_path / "images.h5", PixelArray(pixels), {})
        opened = Images(tmp_path / "images.h5")
        broken = with_module(Work(opened, *list(vars(work).values())[1:]), Poison(1.0))
        with pytest.raises(InputError, match="NaN or infinite features for sample 37 "):
            list(embed(broken, range(broken.batches), 2))
        assert not multiprocessing.active_children()

    def test_a_killed_worker_is_a_sentence(self, work):
        with pytest.raises(InputError, match=r"worker process was killed.*batch-size"):
            list(embed(with_module(work, Suicide()), range(work.batches), 2))

    def test_other_errors_in_a_worker_come_through(self, work):
        with pytest.raises(RuntimeError, match=r"size mismatch|cannot be multiplied"):
            list(embed(with_module(work, nn.Linear(7, 7)), [0], 1))


class TestComplete:
    def run(self, work, folder):
        blocks = extract_blocks(work, folder, 2, range(work.batches))
        assert [block.start for block in blocks] == [0, *[b.stop for b in blocks[:-1]]]
        assert blocks[-1].stop == N
        return read_blocks(blocks, 0, N)

    @pytest.fixture
    def whole(self, work, tmp_path):
        (tmp_path / "whole").mkdir()
        return self.run(work, tmp_path / "whole")

    @pytest.fixture
    def folder(self, monkeypatch, tmp_path):
        """A folder whose blocks are as small as can be."""
        monkeypatch.setattr(resume, "BLOCK_SECONDS", -1.0)
        (tmp_path / "parts").mkdir()
        return tmp_path / "parts"

    def test_blocks_of_any_length_hold_the_same(self, work, whole, folder):
        assert np.array_equal(self.run(work, folder), whole)
        assert len(list(folder.iterdir())) == work.batches

    def test_what_is_there_is_not_made_again(self, work, whole, folder):
        self.run(work, folder)
        times = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
        (folder / "16-24.h5").unlink()
        assert np.array_equal(self.run(work, folder), whole)
        kept = [path for path, time in times.items() if path.stat().st_mtime_ns == time]
        assert len(kept) == work.batches - 1

    @pytest.mark.parametrize("harm", ["cut", "flip", "empty", "foreign", "renamed", "part"])
    def test_damage_is_made_good(self, work, whole, folder, harm):
        self.run(work, folder)
        path = folder / "16-24.h5"
        data = bytearray(path.read_bytes())
        if harm == "cut":
            path.write_bytes(data[: len(data) // 2])
        elif harm == "flip":
            position = data.index(whole[20].tobytes())
            data[position] ^= 1
            path.write_bytes(data)
        elif harm == "empty":
            path.write_bytes(b"")
        elif harm == "foreign":
            (folder / "notes.txt").write_text("not a block")
        elif harm == "renamed":
            path.rename(folder / "16-25.h5")
        else:
            path.rename(folder / "16-24.h5.part")
        assert np.array_equal(self.run(work, folder), whole)

    def test_saturation_and_magnitude_survive_on_disk(self, tmp_path):
        piece = Quantized(np.ones((3, M), np.int16), 4, 7.5)
        other = Quantized(np.ones((2, M), np.int16), 1, 9.25)
        write_block(tmp_path, 5, [piece, other])
        (block,) = load_blocks(tmp_path, M)
        assert (block.start, block.stop, block.saturated, block.largest) == (5, 10, 5, 9.25)

    def test_a_block_of_another_width_is_none(self, tmp_path):
        with create(tmp_path / "0-3.h5", "block", {"saturated": 0, "largest": 0.0}) as file:
            put(file, "feature", np.zeros((3, M + 1), np.int16))
        assert load_blocks(tmp_path, M) == []


class TestFeatures:
    def test_rows_come_back_as_written(self, tmp_path):
        values = np.random.default_rng(0).integers(-99, 99, (5000, 3)).astype(np.int16)
        facts = {"step": 0.25, "backbone": "x", "saturated": 2}
        write_features(tmp_path / "f.h5", values.shape, lambda a, b: values[a:b], facts)
        with open_features(tmp_path / "f.h5") as features:
            assert (len(features), features.m, features.step) == (5000, 3, 0.25)
            assert (features.backbone, features.saturated) == ("x", 2)
            assert np.array_equal(features.rows(4000, 4500), values[4000:4500])

    def test_another_artifact_is_refused(self, tmp_path):
        with create(tmp_path / "f.h5", "images", {}) as file:
            put(file, "feature", np.zeros((2, 2), np.int16))
        with (
            pytest.raises(InputError, match="'features/1' is needed"),
            open_features(tmp_path / "f.h5"),
        ):
            pass
