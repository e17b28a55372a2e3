"""Damage every artifact in every way, and see that it is noticed, named and repaired.

python -m tests.faults.corruption [--seed 0]
"""

import argparse
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import yaml

from tests.workspace import change, command, contents, copy_project

# Each artifact and the stage that reads it first.
READERS = {
    "data/images.h5": "extract",
    "data/index.h5": "partition",
    "data/clients.h5": "gram",
    "data/features.h5": "gram",
    "data/uploads.h5": "aggregate",
    "data/server.h5": "personalize",
    "data/heads.h5": "evaluate",
}
OTHER = {"prepare.test-fraction": 0.3, "partition.clients": 7}  # gives older artifacts


def flip(path: Path, rng: np.random.Generator) -> None:
    """Change one byte anywhere."""
    data = bytearray(path.read_bytes())
    data[rng.integers(len(data))] ^= rng.integers(1, 256)
    path.write_bytes(data)


def truncate(path: Path, rng: np.random.Generator) -> None:
    """Cut the end off, perhaps all of it."""
    data = path.read_bytes()
    path.write_bytes(data[: rng.integers(len(data))])


def delete(path: Path, rng: np.random.Generator) -> None:
    """Delete it."""
    del rng
    path.unlink()


DAMAGES: dict[str, Callable[[Path, np.random.Generator], None]] = {
    "flip": flip,
    "truncate": truncate,
    "delete": delete,
}


def finished(folder: Path) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Run the pipeline with other parameters, then as it is; returns older and present results."""
    copy_project(folder)
    text = change(folder, {})
    change(folder, OTHER)
    command(folder, "dvc", "repro")
    older = contents(folder)
    (folder / "params.yaml").write_text(text, encoding="utf-8")
    command(folder, "dvc", "repro")
    return older, contents(folder)


def noticed(folder: Path, artifact: str) -> str:
    """What the first reader of a damaged artifact says; it must fail."""
    stages = yaml.safe_load((folder / "dvc.lock").read_text(encoding="utf-8"))["stages"]
    before = contents(folder)
    done = command(folder, *shlex.split(stages[READERS[artifact]]["cmd"]), check=False)
    assert done.returncode == 1, f"{artifact}: ended with {done.returncode}, {done.stderr}"
    assert contents(folder) == before, f"{artifact}: the reader changed something"
    return done.stderr


def main() -> None:
    """Every artifact, every damage: noticed by its reader, repaired by `dvc repro`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    rng = np.random.default_rng(parser.parse_args().seed)
    tried = 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        older, present = finished(folder)
        for name in present:
            kinds = DAMAGES if name in READERS else {"flip": flip, "delete": delete}
            for kind, damage in kinds.items():
                damage(folder / name, rng)
                if name in READERS:
                    assert name in noticed(folder, name), f"{name} {kind}: not named"
                repaired(folder, present)
                tried += 1
            if name in older:
                (folder / name).write_bytes(older[name])
                repaired(folder, present)
                tried += 1
    print(f"{tried} damages of {len(present)} files noticed and repaired.")


def repaired(folder: Path, present: dict[str, bytes]) -> None:
    """`dvc repro` brings every result back."""
    command(folder, "dvc", "repro")
    found = contents(folder)
    differing = [name for name in present if found.get(name) != present[name]]
    assert not differing, f"{differing} are not repaired"


if __name__ == "__main__":
    main()
