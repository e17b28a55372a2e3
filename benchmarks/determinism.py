"""Which artifacts another number of threads or other kernels change, and in how many values.

`python -m benchmarks.determinism [--project .] [--stages extract gram …]`, after `dvc repro`.

Every stage of `dvc.lock` runs again from the same inputs, in a copy, under each of ``VARIATIONS``:
what differs is that stage's own doing. Kernels are chosen by the environment, so one processor
plays several. Prints a line for each output that is not the same to the byte.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import h5py
import numpy as np
import yaml
from safetensors.numpy import load_file

VARIATIONS: dict[str, Mapping[str, str]] = {
    "nothing": {},
    "two threads": dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "2"
    ),
    "one core": {"CORES": "1"},
    "OpenBLAS: Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "OpenBLAS: Zen": {"OPENBLAS_CORETYPE": "Zen"},
    "OpenBLAS: Prescott": {"OPENBLAS_CORETYPE": "Prescott"},
    "NumPy: baseline": {
        "NPY_DISABLE_CPU_FEATURES": " ".join(np._core._multiarray_umath.__cpu_dispatch__)
    },
    "PyTorch: AVX2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "PyTorch: SSE": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
    "MKL: compatible": {"MKL_CBWR": "COMPATIBLE"},
}
COPIED = ("data", "pfl", "stages", "runs", "reports", "params.yaml")


def replay(
    project: Path, stages: Sequence[str], variation: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Run stages again in a copy of a finished project; yield outputs that differ, and how."""
    lock = yaml.safe_load((project / "dvc.lock").read_text(encoding="utf-8"))["stages"]
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place)
        for name in COPIED:
            source = project / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, copy / name)
        for stage in stages:
            outputs = [Path(out["path"]) for out in lock[stage]["outs"]]
            run(copy, lock[stage]["cmd"], variation)
            for path in (file for out in outputs for file in _files(project, out)):
                told = difference(project / path, copy / path)
                if told:
                    yield str(path), told
                shutil.copy(project / path, copy / path)


def run(folder: Path, command: str, variation: Mapping[str, str]) -> None:
    """Run a stage's command in a folder, on as many cores as ``CORES`` says, if it does."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(folder), "PFL_QUIET": "1"}
    words = shlex.split(command)
    if "CORES" in variation:
        words = ["taskset", "--cpu-list", "0", *words]
    subprocess.run(words, cwd=folder, env=environment | dict(variation), check=True)


def _files(project: Path, out: Path) -> list[Path]:
    """The file, or all files of the folder."""
    found = [out] if (project / out).is_file() else (project / out).rglob("*")
    return [path.relative_to(project) if path.is_absolute() else path for path in found
            if (project / path).is_file()]  # fmt: skip


def difference(old: Path, new: Path) -> str:
    """What differs between two files, in words; empty if nothing does."""
    if not new.exists():
        return "is missing"
    if old.read_bytes() == new.read_bytes():
        return ""
    if old.suffix not in (".h5", ".safetensors"):
        return "other bytes"
    one, two = _values(old), _values(new)
    parts = []
    for name in one:
        apart = (one[name] != two[name]) & ~((one[name] != one[name]) & (two[name] != two[name]))
        if apart.any():
            most = np.abs(one[name][apart].astype(float) - two[name][apart].astype(float)).max()
            size = np.abs(one[name].astype(float)).max()
            parts.append(
                f"{name}: {np.count_nonzero(apart)} of {apart.size}, by {most:.2g} at most "
                f"(largest value {size:.3g})"
            )
    return "; ".join(parts) or "attributes alone"


def _values(path: Path) -> dict[str, np.ndarray]:
    """Every array of numbers of an artifact."""
    if path.suffix == ".safetensors":
        return load_file(path)
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: (
                found.update({name: item[...]})
                if isinstance(item, h5py.Dataset) and item.dtype.kind in "iuf"
                else None
            )
        )
    return found


def main() -> None:
    """Play every variation and tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--project", type=Path, default=Path())
    parser.add_argument("--stages", nargs="+")
    parser.add_argument("--variations", nargs="+", choices=VARIATIONS, default=[*VARIATIONS])
    options = parser.parse_args()
    project = options.project.resolve()
    lock = yaml.safe_load((project / "dvc.lock").read_text(encoding="utf-8"))["stages"]
    for name in options.variations:
        count = 0
        for path, told in replay(project, options.stages or [*lock], VARIATIONS[name]):
            print(f"{name}: {path}: {told}")
            count += 1
        print(f"{name}: {count} outputs differ.", flush=True)


if __name__ == "__main__":
    main()
