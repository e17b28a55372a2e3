"""A failing disk or full memory is told as such, never as damage of what was being read."""

import errno
import zipfile
from pathlib import Path

import huggingface_hub
import pytest
import torchvision.datasets
from PIL import Image

from pfl.artifacts.project import Project
from pfl.backbones.mae import encoder_file
from pfl.backbones.models import weights
from pfl.cli.inspection import trained
from pfl.cli.verification.heads import _check_table
from pfl.data.images.decoding import check, decode
from pfl.data.sources import vision
from pfl.data.sources.archive import names_in, read_arrays
from pfl.data.sources.links import check_link
from pfl.data.sources.samples import SourceRequest
from pfl.errors import InputError

HERE = Path(__file__)
# What is called, and the library's function that fails within.
CALLS = {
    "encoder": (lambda: encoder_file.load_encoder(HERE), encoder_file, "load_tensors"),
    "models": (lambda: trained.describe_trained(HERE), trained, "safe_open"),
    "weights": (lambda: weights.read_state(HERE), weights, "load_state_dict"),
    "image": (lambda: decode(b"", "x.png"), Image, "open"),
    "archive": (lambda: names_in(HERE), Path, "open"),
    "params.yaml": (lambda: Project(HERE).weights, Path, "read_text"),
    "table": (lambda: _check_table(HERE, ""), Path, "read_text"),
    "link": (lambda: check_link(HERE, HERE.parent), Path, "resolve"),
    "data set": (
        lambda: vision.load(vision.SVHN, SourceRequest(HERE.parent, False, 0.2, 0)),
        torchvision.datasets,
        "SVHN",
    ),
}


@pytest.mark.parametrize("error", [OSError(errno.EIO, "x"), OSError(errno.EACCES, "x")])
@pytest.mark.parametrize("name", CALLS)
def test_a_failing_disk_is_no_damage(monkeypatch, name, error):
    call, place, function = CALLS[name]

    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(place, function, fail)
    with pytest.raises(OSError, match="x") as caught:
        call()
    assert caught.value is error


def test_memory_that_runs_out_is_no_damaged_image(monkeypatch):
    picture = Path(__file__).parents[2] / "docs" / "images" / "report.png"

    def fail(image):
        raise MemoryError

    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.verify", fail)
    with pytest.raises(MemoryError):
        check(picture.read_bytes(), "report.png")


def test_memory_that_runs_out_is_no_reason_to_write_an_archive_again(tmp_path, monkeypatch):
    import numpy as np

    from pfl.data.sources import archive

    np.savez(tmp_path / "x.npz", y_train=np.arange(3))

    def fail(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(archive.npy, "read_array", fail)
    with pytest.raises(InputError, match="must fit into memory") as caught:
        read_arrays(tmp_path / "x.npz", ["y_train"])
    assert "write it again" not in str(caught.value)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="disk"):
        patch.setattr(zipfile.ZipFile, "getinfo", fail_with(OSError(errno.EIO, "disk")))
        read_arrays(tmp_path / "x.npz", ["y_train"])


def fail_with(error):
    def fail(*arguments, **options):
        raise error

    return fail


def test_a_cache_that_cannot_be_written_is_no_missing_model(monkeypatch):
    monkeypatch.setattr(weights, "_reach", lambda url, place: None)
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *names: None)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail_with(OSError(errno.EACCES, "x")))
    with pytest.raises(PermissionError):
        weights.hugging_face("someone/model")
