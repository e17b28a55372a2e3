"""Python in the documents runs as it stands, beside a finished pipeline and with given names."""

import numpy as np
import pytest

from tests.docs.kinds import PYTHON, kind
from tests.docs.pages import ALL

BLOCKS = [block for block in ALL if kind(block) == PYTHON]
PIXELS = np.zeros((50_000, 1, 1, 1), np.uint8)  # as many images as CIFAR-10 has, of one pixel
LABELS = np.arange(len(PIXELS)) % 10
ARRAYS = {"x_train": PIXELS, "y_train": LABELS, "x_test": PIXELS[:9], "y_test": LABELS[:9]}
GIVEN = {"np": np, "images": PIXELS, "labels": LABELS}


@pytest.fixture(scope="module")
def place(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("python")
    (folder / "data" / "raw").mkdir(parents=True)
    (folder / "data" / "heads.h5").symlink_to(tiny / "data" / "heads.h5")
    np.savez(folder / "data" / "raw" / "cifar10.npz", **ARRAYS, classes=list("0123456789"))
    return folder


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_python_runs(block, place, monkeypatch):
    monkeypatch.chdir(place)
    exec(compile(block.text, block.place, "exec"), dict(GIVEN))


def test_there_are_some():
    assert BLOCKS
