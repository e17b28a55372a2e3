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


def copy_project(folder):
    """Copy what the pipeline needs, without git, and set the tiny network."""
    for name in TRACKED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    for name in ("raw", "weights"):
        (folder / "data" / name).mkdir(parents=True)
        shutil.copy(ROOT / "data" / name / "README.md", folder / "data" / name)
    (folder / ".dvc").mkdir()
    shutil.copy(ROOT / ".dvc" / "config", folder / ".dvc")
    (folder / ".dvc" / "config.local").write_text("[core]\n    no_scm = true\n")
    change(folder, {"extract.backbone": "random-tiny", "extract.image-size": 16})


def change(folder, values):
    """Set dotted parameters in params.yaml."""
    path = folder / "params.yaml"
    params = yaml.safe_load(path.read_text(encoding="utf-8"))
    for key, value in values.items():
        section, name = key.split(".")
        assert name in params[section], key
        params[section][name] = value
    path.write_text(yaml.safe_dump(params))


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
    """Bytes of every artifact and report."""
    paths = [*folder.glob("data/*.h5"), *folder.glob("reports/**/*")]
    return {str(p.relative_to(folder)): p.read_bytes() for p in paths if p.is_file()}
