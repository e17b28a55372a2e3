"""All checks of a project, in the order of the pipeline."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePath

from pfl.artifacts.hdf5 import check
from pfl.artifacts.project import OUTPUTS, Project, made_by, missing
from pfl.cli.verification import heads, invariants
from pfl.cli.verification.calibration import calibration
from pfl.cli.verification.outcome import Check
from pfl.cli.verification.state import DvcState
from pfl.errors import InputError, of_system

# What must hold between an output and those before it: name, what it needs, work, slow.
BETWEEN: dict[str, tuple[tuple[str, tuple[str, ...], Callable[[Project], str], bool], ...]] = {
    "data/index.h5": (("samples", ("images", "index"), invariants.samples, False),),
    "data/clients.h5": (("partition", ("index", "clients"), invariants.partition, False),),
    "data/features.h5": (("rows", ("index", "features"), invariants.rows, False),),
    "data/uploads.h5": (
        ("samples sent", ("clients", "features", "uploads"), invariants.upload_counts, False),
        ("sums sent", ("index", "clients", "features", "uploads"), invariants.upload_sums, True),
    ),
    "data/members.h5": (("members", ("uploads", "members"), invariants.members, False),),
    "data/server.h5": (
        ("sums", ("members", "uploads", "server"), invariants.server_sums, False),
        ("equations", ("server",), invariants.server_head, False),
        ("origin", ("members", "server"), invariants.server_listed, False),
    ),
    "data/heads.h5": (
        ("origins", ("clients", "features", "members", "server", "heads"), heads.origins, False),
        ("calibration", ("clients", "server", "heads"), calibration, False),
        ("equations", ("uploads", "server", "heads"), heads.equations, True),
    ),
    "reports/fedhip": (
        ("accuracies", ("index", "clients", "features", "server", "heads"), heads.accuracies, True),
    ),
}


def plan(project: Project) -> Iterator[Check]:
    """Every check, from upstream to downstream: of each output the cheapest first."""
    state = DvcState(project.root)
    for pattern in OUTPUTS:
        for out in _present(project.root, pattern, state.missing):
            path = project.root / out
            if path.suffix in CONTENT:
                yield Check(out, "checksum", (), partial(CONTENT[path.suffix], path))
            yield Check(out, "DVC", (), partial(state.check, str(made_by(path)), out))
            for name, needs, work, slow in BETWEEN.get(out, ()):
                needed = tuple(f"data/{schema}.h5" for schema in needs)
                yield Check(out, name, needed, partial(work, project), slow)


def _present(root: Path, pattern: str, missed: frozenset[str]) -> list[str]:
    """The outputs of a pattern: what every run has, what is there, and what DVC misses."""
    if pattern in BETWEEN or pattern == "data/images.h5":
        return [pattern]
    there = {path.relative_to(root).as_posix() for path in root.glob(pattern)}
    return sorted(there | {out for out in missed if PurePath(out).match(pattern)})


def _artifact(path: Path) -> str:
    if not path.exists():
        raise missing(path, path.stem)
    return f"SHA-256 {check(path, path.stem)[:8]}…"


def _tensors(path: Path) -> str:
    from pfl.artifacts.tensors import BROKEN, load_tensors  # PyTorch takes a second to import.

    try:
        tensors, _ = load_tensors(path)
    except BROKEN as error:
        if of_system(error):
            raise
        raise InputError(
            f"{path} is missing, damaged or not of this pipeline ({error}): delete it and run "
            f"`dvc repro {made_by(path)}`, which makes it again."
        ) from error
    return f"SHA-256 as recorded, {len(tensors)} tensors"


CONTENT: dict[str, Callable[[Path], str]] = {".h5": _artifact, ".safetensors": _tensors}
