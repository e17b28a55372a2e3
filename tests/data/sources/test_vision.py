"""Public data sets in torchvision's layouts, as small stand-ins."""

import gzip
import pickle
import shutil
import struct
import tarfile
import urllib.error
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torchvision.datasets as tv

from pfl.data.images.images import PixelArray
from pfl.data.samples.index import TEST, TRAIN
from pfl.data.sources import vision
from pfl.data.sources.registry import Dataset
from pfl.errors import InputError
from tests.sources import check_law, request


def write_idx(path, values, pack=False):
    header = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = header + values.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(data) if pack else data)


IDX = {
    "train-images-idx3-ubyte": np.arange(6 * 9).reshape(6, 3, 3),
    "train-labels-idx1-ubyte": np.array([0, 1, 2, 9, 4, 4]),
    "t10k-images-idx3-ubyte": np.arange(100, 118).reshape(2, 3, 3),
    "t10k-labels-idx1-ubyte": np.array([3, 1]),
}


def check_idx(samples):
    check_law(samples)
    images = np.concatenate([IDX["train-images-idx3-ubyte"], IDX["t10k-images-idx3-ubyte"]])
    np.testing.assert_array_equal(samples.images.pixels[..., 0], images)
    assert samples.index.label.tolist() == [0, 1, 2, 9, 4, 4, 3, 1]
    assert samples.index.split.tolist() == [TRAIN] * 6 + [TEST] * 2
    assert len(samples.index.classes) == 10


@pytest.mark.parametrize(
    ("name", "folder"), [("mnist", "MNIST"), ("fashion-mnist", "FashionMNIST")]
)
@pytest.mark.parametrize("place", ["{folder}/raw/{file}", "{folder}/raw/{file}.gz", "{file}.gz"])
def test_idx_files_are_read_where_they_may_lie(tmp_path, name, folder, place):
    for file, values in IDX.items():
        path = tmp_path / place.format(folder=folder, file=file)
        write_idx(path, values, pack=path.suffix == ".gz")
    check_idx(Dataset(name).load(request(tmp_path)))


def test_fashion_mnist_is_unzipped_from_the_installed_package(tmp_path):
    installed, folder = tmp_path / "package", tmp_path / "raw"
    for file, values in IDX.items():
        write_idx(installed / f"{file}.gz", values, pack=True)
    source = vision._idx("FashionMNIST", "", installed=(installed,))
    check_idx(vision.load(source, request(folder)))
    assert sorted(f.name for f in (folder / "FashionMNIST/raw").iterdir()) == sorted(IDX)


@pytest.mark.parametrize("damage", [lambda d: d[:-9], lambda d: d[:30] + b"\xff" + d[31:]])
def test_a_damaged_gz_is_named_and_leaves_nothing(tmp_path, damage):
    for file, values in IDX.items():
        write_idx(tmp_path / f"{file}.gz", values, pack=True)
    victim = tmp_path / "train-images-idx3-ubyte.gz"
    victim.write_bytes(damage(victim.read_bytes()))
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte\.gz is damaged"):
        Dataset.MNIST.load(request(tmp_path))
    assert not list((tmp_path / "MNIST/raw").iterdir())


def test_idx_files_that_do_not_fit_together_are_refused(tmp_path):
    for file, values in IDX.items():
        write_idx(tmp_path / "MNIST/raw" / file, values)
    write_idx(tmp_path / "MNIST/raw/train-labels-idx1-ubyte", np.array([1, 2]))
    with pytest.raises(InputError, match="8 images, 4 labels"):
        Dataset.MNIST.load(request(tmp_path))
    (tmp_path / "MNIST/raw/train-labels-idx1-ubyte").write_bytes(b"\0\0")
    with pytest.raises(InputError, match="MNIST is missing or damaged"):
        Dataset.MNIST.load(request(tmp_path))


def cifar_files(folder, key, names, label_names):
    """CIFAR's own layout: pickled dictionaries of rows (red, green, blue planes)."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    rows = rng.integers(0, 256, (len(names), 2, 3072), dtype=np.uint8)
    for number, name in enumerate(names):
        entry = {"data": rows[number], key: [number, number + 1]}
        (folder / name).write_bytes(pickle.dumps(entry))
    meta = {label_names: [f"class-{i}" for i in range(10)]}
    (folder / ("batches.meta" if "batch" in names[0] else "meta")).write_bytes(pickle.dumps(meta))
    return rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
CIFAR = {
    "cifar10": ("cifar-10-batches-py", "labels", BATCHES, "label_names"),
    "cifar100": ("cifar-100-python", "fine_labels", ["train", "test"], "fine_label_names"),
}


@pytest.fixture
def any_hash(monkeypatch):
    """Small stand-ins cannot have the official MD5."""

    def exists(path, md5=None):
        return Path(path).is_file()

    for module in (tv.cifar, tv.svhn, tv.utils):
        monkeypatch.setattr(module, "check_integrity", exists)


@pytest.mark.parametrize("name", CIFAR)
@pytest.mark.parametrize("archived", [False, True])
def test_cifar_is_read_from_its_files_or_its_archive(tmp_path, any_hash, name, archived):
    folder, *layout = CIFAR[name]
    pixels = cifar_files(tmp_path / folder, *layout)
    if archived:
        archive = name.replace("cifar", "cifar-") + "-python.tar.gz"
        with tarfile.open(tmp_path / archive, "w:gz") as tar:
            tar.add(tmp_path / folder, folder)
        shutil.rmtree(tmp_path / folder)
        (tmp_path / f"{folder}.part").mkdir()  # left by an interrupted run
    samples = Dataset(name).load(request(tmp_path))
    check_law(samples)
    np.testing.assert_array_equal(samples.images.pixels, pixels)
    batches = len(layout[1])
    assert samples.index.label.tolist() == [v for i in range(batches) for v in (i, i + 1)]
    assert samples.index.test.sum() == 2
    assert samples.index.classes[3] == "class-3"


def test_cifar_with_another_hash_is_never_unpickled(tmp_path, monkeypatch):
    folder, *layout = CIFAR["cifar10"]
    cifar_files(tmp_path / folder, *layout)
    monkeypatch.setattr(pickle, "load", lambda *a, **k: pytest.fail("unpickled"))
    with pytest.raises(InputError, match="CIFAR10 is missing or damaged"):
        Dataset.CIFAR10.load(request(tmp_path))


def test_a_wrong_archive_is_never_unpacked(tmp_path):
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(b"hello")
    with pytest.raises(InputError, match="not the official archive"):
        Dataset.CIFAR10.load(request(tmp_path))


def test_svhn_is_read_with_ten_as_zero(tmp_path, any_hash):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (32, 32, 3, 5), dtype=np.uint8)
    for split, part, labels in (
        ("train", pixels[..., :3], [10, 2, 9]),
        ("test", pixels[..., 3:], [1, 10]),
    ):
        mat = {"X": part, "y": np.array(labels, np.uint8)[:, None]}
        scipy.io.savemat(tmp_path / f"{split}_32x32.mat", mat)
    samples = Dataset.SVHN.load(request(tmp_path))
    check_law(samples)
    np.testing.assert_array_equal(samples.images.pixels, pixels.transpose(3, 0, 1, 2))
    assert samples.index.label.tolist() == [0, 2, 9, 1, 0]


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "mnist", "svhn"])
def test_missing_data_say_what_to_do(tmp_path, name):
    with pytest.raises(InputError, match=r"`prepare\.download: true` \(flag --download\), or put"):
        Dataset(name).load(request(tmp_path))


def test_a_failed_download_says_why(tmp_path, monkeypatch):
    def offline(*args, **kwargs):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(tv.cifar, "download_and_extract_archive", offline)
    with pytest.raises(InputError, match=r"nor downloaded.*no route to host.*or put cifar-10"):
        Dataset.CIFAR10.load(request(tmp_path, download=True))


def test_the_download_flag_alone_lets_torchvision_download(tmp_path, any_hash, monkeypatch):
    def fetch(url, root, **kwargs):
        folder, *layout = CIFAR["cifar10"]
        cifar_files(tmp_path / folder, *layout)

    monkeypatch.setattr(tv.cifar, "download_and_extract_archive", fetch)
    with pytest.raises(InputError):
        Dataset.CIFAR10.load(request(tmp_path))
    samples = Dataset.CIFAR10.load(request(tmp_path, download=True))
    assert isinstance(samples.images, PixelArray)
