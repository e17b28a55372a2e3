"""Stage ``prepare``: as a command, on small data and on real data where these are at hand."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from ruamel.yaml import YAML

from pfl.artifacts.hdf5 import check, reading
from pfl.data.images.images import open_images
from pfl.data.samples.index import read_index
from pfl.data.sources.registry import Dataset
from pfl.data.sources.sites import Difference
from pfl.errors import InputError
from stages.prepare import prepare
from tests.workspace import ROOT

DATA = Path(os.environ.get("PFL_TEST_DATA", ROOT.parent / "shared" / "data"))
DEFAULTS = YAML(typ="safe").load(ROOT / "params.yaml")["prepare"]


def make(
    folder, dataset=Dataset.DIGITS, path=Path("data/raw"), fraction=0.2, seed=0, differ="none"
):
    images, index = folder / "images.h5", folder / "index.h5"
    prepare(dataset, path, fraction, seed, images, index, differ=Difference(differ))
    return images, index


def command(folder, **changes):
    """Run the stage as DVC does, with every value of ``params.yaml`` turned into a flag."""
    flags = []
    for key, value in {**DEFAULTS, **changes}.items():
        if isinstance(value, bool):
            flags.append(f"--{'' if value else 'no-'}{key}")
        else:
            flags += [f"--{key}", str(value)]
    outputs = ["--images", str(folder / "images.h5"), "--index", str(folder / "index.h5")]
    line = [sys.executable, "-m", "stages.prepare", *flags, *outputs]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@pytest.fixture
def pictures(tmp_path):
    root = tmp_path / "pictures"
    for split, count in (("train", 3), ("test", 2)):
        for label in ("cat", "dog"):
            (root / split / label).mkdir(parents=True)
            for number in range(count):
                image = Image.new("RGB", (8 + number, 9), (number, 50, 100))
                image.save(root / split / label / f"{number}.jpg")
    return root


def test_the_default_parameters_make_both_artifacts(tmp_path):
    done = command(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1,438 training and 359 test images (cut test split), 10 classes" in done.stderr
    assert sorted(contents(tmp_path)) == ["images.h5", "index.h5"]
    index = read_index(tmp_path / "index.h5")
    with open_images(tmp_path / "images.h5") as images:
        assert len(images) == len(index.label) == 1797


def test_an_unknown_data_set_lists_all_and_changes_nothing(tmp_path):
    (tmp_path / "images.h5").write_bytes(b"old")
    done = command(tmp_path, dataset="imagenet")
    assert done.returncode == 2
    assert all(f"'{name}'" in done.stderr for name in Dataset)
    assert contents(tmp_path) == {"images.h5": b"old"}


def test_bad_data_end_in_one_sentence_and_change_nothing(tmp_path, pictures):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "images.h5").write_bytes(b"old")
    victim = pictures / "test" / "dog" / "1.jpg"
    victim.write_bytes(victim.read_bytes()[:200])
    done = command(folder, dataset="folder", path=pictures)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"Error: Image {victim} is damaged" in done.stderr
    assert contents(folder) == {"images.h5": b"old"}


@pytest.mark.parametrize("trouble", ["a failure", "a folder in the place of the index"])
def test_images_and_index_are_replaced_together_or_not_at_all(tmp_path, monkeypatch, trouble):
    (tmp_path / "images.h5").write_bytes(b"old")
    if trouble == "a failure":
        (tmp_path / "index.h5").write_bytes(b"old")
        monkeypatch.setattr("pfl.data.sources.samples.write_index", lambda *_: 1 / 0)
    else:
        (tmp_path / "index.h5").mkdir()
    before = contents(tmp_path)
    with pytest.raises((ZeroDivisionError, IsADirectoryError)):
        make(tmp_path)
    assert contents(tmp_path) == before


def test_the_index_names_its_images(tmp_path):
    images, index = make(tmp_path)
    assert read_index(index).images_sha256 == check(images, "images")
    assert read_index(index).sha256 == check(index, "index")


def test_encoded_images_name_the_pillow_that_read_them(tmp_path, pictures):
    images, _ = make(tmp_path, Dataset.FOLDER, pictures)
    with reading(images, "images") as file:
        assert file.attrs["version-pillow"] == version("pillow")


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_that_no_artifact_could_hold_is_a_wrong_flag(tmp_path, seed):
    done = command(tmp_path, seed=seed)
    assert done.returncode == 2
    assert "--seed" in done.stderr
    assert make(tmp_path, seed=2**63 - 1)


@pytest.mark.parametrize("fraction", [1.0, float("nan")])
def test_a_fraction_that_leaves_nothing_to_train_on_is_refused(tmp_path, fraction):
    with pytest.raises(InputError, match=r"choose one in \[0, 1\)"):
        make(tmp_path, fraction=fraction)


@pytest.mark.parametrize("dataset", [Dataset.DIGITS, Dataset.FOLDER])
def test_same_inputs_same_bytes(tmp_path, pictures, dataset):
    path = pictures if dataset is Dataset.FOLDER else Path("data/raw")
    results = []
    for name in ("one", "two"):
        make(tmp_path / name, dataset, path)
        results.append(contents(tmp_path / name))
    assert results[0] == results[1]


def test_the_place_of_a_folder_does_not_change_the_bytes(tmp_path, pictures):
    make(tmp_path / "one", Dataset.FOLDER, pictures)
    make(tmp_path / "two", Dataset.FOLDER, pictures.rename(tmp_path / "elsewhere"))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@pytest.mark.parametrize("change", [{"seed": 1}, {"fraction": 0.5}])
def test_parameters_of_the_cut_matter_only_where_one_is_made(tmp_path, pictures, change):
    for dataset, path, same in (
        (Dataset.DIGITS, Path("data/raw"), False),
        (Dataset.FOLDER, pictures, True),
    ):
        make(tmp_path / dataset / "one", dataset, path)
        make(tmp_path / dataset / "two", dataset, path, **change)
        one, two = contents(tmp_path / dataset / "one"), contents(tmp_path / dataset / "two")
        assert (one == two) is same


# --- real data


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Unpack a real data set by name, or skip."""

    def unpack(name):
        script = DATA / "unpack.py"
        if not (script.is_file() and (DATA / f"{name}.zip").is_file()):
            pytest.skip(
                f"{name}.zip with unpack.py is not in {DATA}: set PFL_TEST_DATA to its folder."
            )
        folder = tmp_path_factory.mktemp(name)
        subprocess.run([sys.executable, str(script), name, str(folder)], check=True)
        return next(folder.iterdir())

    return unpack


@pytest.mark.slow
def test_office_caltech_has_its_domains_as_groups(tmp_path, real):
    images, index = make(tmp_path, Dataset.FOLDER, real("office_caltech10"))
    known = read_index(index)
    assert known.groups == ("Caltech", "amazon", "dslr", "webcam")
    assert len(known.classes) == 10
    assert len(known.label) == 2533
    stratum = known.group * 10 + known.label
    assert set(stratum) == set(stratum[known.train])
    with open_images(images) as opened:
        for number in (0, 1000, 2532):
            domain, label = opened.name(number).split("/")[:2]
            assert known.groups[known.group[number]] == domain
            assert known.classes[known.label[number]] == label
            assert opened.rgb(number, number + 1)[0].std() > 5


@pytest.mark.slow
def test_histology_keeps_its_own_splits(tmp_path, real):
    images, index = make(tmp_path, Dataset.FOLDER, real("histology_crc5"))
    known = read_index(index)
    assert (known.train.sum(), known.test.sum()) == (5000, 2500)
    assert known.classes == ("AC", "H", "S", "T", "V")
    with open_images(images) as opened:
        assert opened.name(0).startswith("training/AC/")
        assert opened.name(7499).startswith("test/V/")


@pytest.mark.slow
def test_cifar10_as_npz(tmp_path, real):
    path = real("cifar10")
    images, index = make(tmp_path, Dataset.NPZ, path)
    known = read_index(index)
    assert known.classes[3] == "cat"
    assert np.bincount(known.label[known.test]).tolist() == [1000] * 10
    with open_images(images) as opened, np.load(path) as file:
        np.testing.assert_array_equal(opened.rgb(49_990, 50_000), file["x_train"][-10:])
        np.testing.assert_array_equal(opened.rgb(50_000, 50_010), file["x_test"][:10])


DEBIAN = Path("/usr/share/datasets/fashion-mnist")


@pytest.mark.slow
@pytest.mark.skipif(
    not DEBIAN.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed"
)
def test_fashion_mnist_of_debian(tmp_path):
    _, index = make(tmp_path / "out", Dataset.FASHION_MNIST, tmp_path / "raw")
    known = read_index(index)
    assert np.bincount(known.label[known.train]).tolist() == [6000] * 10
    assert np.bincount(known.label[known.test]).tolist() == [1000] * 10
