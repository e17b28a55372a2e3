"""A finished pipeline of tiny networks, and beside it what else the documents' commands read."""

import os
import subprocess

import numpy as np
from PIL import Image

from tests.workspace import ENVIRONMENT

COMMITS = """
git init --quiet
git config user.name a
git config user.email a@b
git add dvc.lock dvc.yaml params.yaml .dvc .gitignore
git commit --quiet -m one
git commit --quiet -m two --allow-empty
"""
FOLDERS = ("raw", "data/raw/my-images", "photos", "others")  # of images
ARRAYS = "cifar10.npz"
DISK = "../large"


def furnish(folder, binaries):
    """Make a finished pipeline a git clone with two commits and an environment."""
    activate = folder / ".venv" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.touch()
    (folder / ".dvc" / "config.local").unlink()
    (folder / ".dvc" / ".gitignore").write_text("/config.local\n/tmp\n/cache\n")
    typed(folder, binaries, COMMITS)


def provide(folder, text):
    """Put there what a text names and the pipeline does not make."""
    rng = np.random.default_rng(0)
    for place in FOLDERS:
        if place in text.split():
            _images(folder / place, rng)
    if DISK in text:
        (folder / DISK).mkdir()
    if ARRAYS in text:
        pixels, labels = rng.integers(0, 256, (200, 8, 8, 3), np.uint8), np.arange(200) % 10
        np.savez(folder / ARRAYS, x_train=pixels, y_train=labels)


def _images(folder, rng):
    for name in ("one", "two"):
        (folder / name).mkdir(parents=True)
        for number in range(10):
            pixels = rng.integers(0, 256, (8, 8), np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")


def typed(folder, binaries, text):
    """Give a text to a shell, which stops at the first command that fails; what was shown then."""
    path = f"{binaries}{os.pathsep}{ENVIRONMENT['PATH']}"
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", text],
        cwd=folder, env=ENVIRONMENT | {"PATH": path}, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout
