"""The pipeline's stages on a tiny network, run within this process, without DVC."""

import importlib
import inspect
import itertools
import re
import shutil
from pathlib import Path
from typing import get_type_hints

import h5py
import yaml
from typer.testing import CliRunner

from pfl.artifacts.hdf5 import create, put
from pfl.cli.app import app
from tests.workspace import ROOT, SMALL, change, flat

STAGES = ("prepare", "partition", "extract", "gram", "aggregate", "personalize", "evaluate")


def pipeline(folder, values=None, stages=STAGES):
    """Run stages in ``folder`` with the parameters of params.yaml, ``values`` among them."""
    folder.mkdir(exist_ok=True)
    shutil.copy(ROOT / "params.yaml", folder)
    (folder / "data" / "weights").mkdir(parents=True, exist_ok=True)
    change(folder, SMALL | (values or {}))
    for stage in stages:
        run_stage(folder, stage)
    return folder


def run_stage(folder, stage):
    """Call a stage's function with the files of dvc.yaml and its sections of params.yaml."""
    function = getattr(importlib.import_module(f"stages.{stage}"), stage)
    words = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"][stage]["cmd"].split()
    files = {
        flag[2:]: folder / path for flag, path in itertools.pairwise(words) if flag.startswith("--")
    }
    params = yaml.safe_load((folder / "params.yaml").read_text())
    flags = dict(pair for word in words if word[0] == "$" for pair in flat(params[word[2:-1]]))
    hints = get_type_hints(function)
    values = {re.sub(r"\W", "_", name): value for name, value in (files | flags).items()}
    if "scratch" in inspect.signature(function).parameters:
        values["scratch"] = folder / ".scratch"
    function(**{name: hints[name](value) for name, value in values.items()})


def pfl(*words):
    """Run a command of ``pfl`` on a wide terminal."""
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "250"})


def told(done):
    """What a command said, in one line."""
    return " ".join(done.output.split())


def flip(path: Path):
    """Change one byte in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def rewrite(path: Path, schema, name, edit, facts=None):
    """Change one dataset, or facts, and store all anew, with a checksum that is right."""
    with h5py.File(path) as file:
        attributes = {k: v.item() if hasattr(v, "item") else v for k, v in file.attrs.items()}
        found = {}
        file.visititems(
            lambda name, item: (
                found.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    edit(found[name])
    with create(path, schema, attributes | (facts or {}), packages=()) as file:
        for key, values in found.items():
            put(file, key, values)
