"""Extraction in parts: the bytes of one without parts, whatever the number and order of them."""

import pytest
from typer.testing import CliRunner

from pfl.backbones.extraction.shards import Shard, merge_shards, parse_shard
from pfl.cli.app import app
from pfl.data.features.features import open_features
from pfl.errors import InputError
from pfl.runtime.locks import only_writer
from pfl.runtime.values import Device, Precision
from stages.extract import extract
from tests.stages.test_extract import make_images


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Fifty images, and the features of all of them."""
    place = tmp_path_factory.mktemp("shards")
    make_images(place / "images.h5", 50)
    run(place, "features.h5")
    return place


def run(place, out, **changes):
    flags = {
        "backbone": "random-tiny", "weights": place, "image_size": "auto", "feature_range": "auto",
        "batch_size": 4, "precision": Precision.fp32, "device": Device.cpu,
        "images": place / "images.h5", "scratch": place / "scratch", **changes,
    }  # fmt: skip
    extract(out=place / out, **flags)
    return place / out


@pytest.fixture(scope="module")
def parts(folder):
    """Three shards of it."""
    return [run(folder, f"part-{i}.h5", shard=f"{i}/3") for i in range(3)]


@pytest.mark.parametrize(("batches", "count"), [(13, 1), (13, 3), (13, 13), (100, 7)])
def test_shards_have_every_batch_once(batches, count):
    dealt = [n for i in range(count) for n in Shard(i, count).batches(batches)]
    assert dealt == list(range(batches))


def test_merged_shards_are_the_bytes_of_one_run(folder, parts):
    merge_shards([parts[2], parts[0], parts[1]], folder / "merged.h5")
    assert (folder / "merged.h5").read_bytes() == (folder / "features.h5").read_bytes()
    assert not [item for item in (folder / "scratch").glob("*/*") if item.is_dir()]


def test_shards_of_one_folder_may_run_at_once_and_nothing_else_meanwhile(folder):
    with only_writer([folder], shared=True):  # as another shard has it
        run(folder, "beside.h5", shard="1/3")
        with pytest.raises(InputError, match="Another stage is at work"):
            run(folder, "whole.h5")


def test_the_command_merges_too(folder, parts):
    words = ["merge-features", *map(str, parts), "--out", str(folder / "by-command.h5")]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert (folder / "by-command.h5").read_bytes() == (folder / "features.h5").read_bytes()
    done = CliRunner().invoke(app, [*words[:2], *words[-2:]])
    assert done.exit_code == 1


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ([0, 1], "Images 32 to 49 are missing"),
        ([1, 2], "Images 0 to 15 are missing"),
        ([0, 2], "Images 16 to 31 are missing"),
        ([0, 1, 1, 2], "Images 16 to 31 are there twice"),
    ],
)
def test_each_shard_is_needed_once(folder, parts, chosen, message):
    with pytest.raises(InputError, match=message):
        merge_shards([parts[i] for i in chosen], folder / "wrong.h5")
    assert not (folder / "wrong.h5").exists()


def test_shards_of_different_runs_do_not_merge(folder, parts):
    other = run(folder, "other.h5", shard="1/3", feature_range="64")
    with pytest.raises(InputError, match=r"other\.h5 was made otherwise than .*facts"):
        merge_shards([parts[0], other, parts[2]], folder / "wrong.h5")


def test_shards_of_other_versions_do_not_merge(folder, parts, monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.0")
    with pytest.raises(InputError, match=r"was made with numpy .*, here is 0\.0"):
        merge_shards(parts, folder / "wrong.h5")


def test_a_shard_is_not_taken_for_features(parts):
    with pytest.raises(InputError, match="schema"), open_features(parts[0]):
        pass


@pytest.mark.parametrize("text", ["", "1", "3/3", "0/0", "-1/2", "a/b"])
def test_what_is_no_shard(text):
    with pytest.raises(InputError, match="write i/n"):
        parse_shard(text)


def test_more_shards_than_batches(folder):
    with pytest.raises(InputError, match="There are 13 batches and 14 shards"):
        run(folder, "none.h5", shard="0/14")
