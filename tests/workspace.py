"""A throwaway copy of the project in which the real pipeline runs on a tiny network."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
TRACKED = ("dvc.yaml", "params.yaml", ".dvcignore", ".gitignore", "pfl", "stages")
ENVIRONMENT = os.environ | {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "OMP_NUM_THREADS": "1",
    "COLUMNS": "300",
}


SMALL = {
    "extract.backbone": "random-tiny",
    "extract.image-size": 16,
    "compare.methods": ["fedavg"],
    "compare.heads": ["fedavg"],
    "rounds.rounds": 1,
    "head-rounds.rounds": 1,
}


def copy_project(folder):
    """Copy what the pipeline needs, without git, and set small networks and short training."""
    for name in TRACKED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    for name in ("raw", "weights", "begin"):
        (folder / "data" / name).mkdir(parents=True)
        shutil.copy(ROOT / "data" / name / "README.md", folder / "data" / name)
    (folder / ".dvc").mkdir()
    shutil.copy(ROOT / ".dvc" / "config", folder / ".dvc")
    (folder / ".dvc" / "config.local").write_text("[core]\n    no_scm = true\n")
    change(folder, SMALL)


def change(folder, values):
    """Set dotted parameters in params.yaml; returns its text before."""
    path = folder / "params.yaml"
    before = path.read_text(encoding="utf-8")
    params = yaml.safe_load(before)
    for key, value in values.items():
        *sections, name = key.split(".")
        section = params
        for one in sections:
            section = section[one]
        assert name in section, key
        section[name] = value
    path.write_text(yaml.safe_dump(params), encoding="utf-8")
    return before


def flat(section, before=""):
    """Names and values as DVC makes them flags: those of a section in a section after a dot."""
    for name, value in section.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def command(folder, *words, check=True):
    """Run a command in the copy; show its output when it fails unexpectedly."""
    done = subprocess.run(
        words, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    if check and done.returncode != 0:
        raise AssertionError(f"{words} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done


def ran(done):
    """Names of the stages that a `dvc repro` ran."""
    lines = done.stdout.splitlines()
    return [line.split("'")[1] for line in lines if line.startswith("Running stage")]


def contents(folder):
    """Bytes of every artifact, trained model and report."""
    paths = [
        path for place in ("data/*.h5", "runs/**/*", "reports/**/*") for path in folder.glob(place)
    ]
    return {str(p.relative_to(folder)): p.read_bytes() for p in paths if p.is_file()}
