"""All checks of a project, in the order of the pipeline."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from pfl.artifacts.hdf5 import check
from pfl.artifacts.project import STAGES, Project
from pfl.cli.inspection.trained import describe_trained
from pfl.cli.verification import heads, invariants
from pfl.cli.verification.outcome import Check
from pfl.cli.verification.state import DvcState

# What must hold between an artifact and those before it: name, what it needs, work, slow.
BETWEEN: dict[str, tuple[tuple[str, tuple[str, ...], Callable[[Project], str], bool], ...]] = {
    "index": (("samples", ("images",), invariants.samples, False),),
    "clients": (("partition", ("index",), invariants.partition, False),),
    "features": (("rows", ("index",), invariants.rows, False),),
    "uploads": (
        ("samples sent", ("clients", "features"), invariants.upload_counts, False),
        ("sums sent", ("index", "clients", "features"), invariants.upload_sums, True),
    ),
    "members": (("members", ("uploads",), invariants.members, False),),
    "server": (
        ("sums", ("members", "uploads"), invariants.server_sums, False),
        ("equations", (), invariants.server_head, False),
        ("origin", ("members",), invariants.server_listed, False),
    ),
    "heads": (
        ("origins", ("clients", "features", "members", "server"), heads.origins, False),
        ("equations", ("uploads", "server"), heads.equations, True),
    ),
}
REPORT = "reports/fedhip"
# Reports of which DVC's word is all there is to check, and the stages that make them.
OTHERS = {
    "reports/partition": "partition",
    "reports/upload.json": "aggregate",
    "reports/leakage": "leakage",
    "reports/comparison": "compare",
}


def plan(project: Project) -> Iterator[Check]:
    """Every check, from upstream to downstream: of each artifact the cheapest first."""
    state = DvcState(project.root)
    for schema, stage in STAGES.items():
        out = _out(schema)
        yield Check(out, "checksum", (), partial(_file, project, schema))
        yield Check(out, "DVC", (), partial(state.check, stage, out))
        for name, needs, work, slow in BETWEEN.get(schema, ()):
            needed = tuple(_out(one) for one in (schema, *needs))
            yield Check(out, name, needed, partial(work, project), slow)
    yield Check(REPORT, "DVC", (), partial(state.check, "evaluate", REPORT))
    needed = tuple(_out(one) for one in ("index", "clients", "features", "server", "heads"))
    work = partial(heads.accuracies, project)
    yield Check(REPORT, "accuracies", needed, work, slow=True)
    yield from _trained(project, state)


def _trained(project: Project, state: DvcState) -> Iterator[Check]:
    """The trained methods and the other reports, as far as there are any."""
    for path in sorted(project.root.glob("runs/*/seed-*.safetensors")):
        out, method = str(path.relative_to(project.root)), path.parent.name
        report = f"reports/train/{method}/{path.stem}"
        stage = f"train@{method}-{path.stem.removeprefix('seed-')}"
        yield Check(out, "readable", (), partial(_models, path))
        yield Check(out, "DVC", (), partial(state.check, stage, out, report))
    for out, stage in OTHERS.items():
        if (project.root / out).exists():
            yield Check(out, "DVC", (), partial(state.check, stage, out))


def _models(path: Path) -> str:
    return f"models of {len(describe_trained(path)['clients'])} clients"


def _out(schema: str) -> str:
    return f"data/{schema}.h5"


def _file(project: Project, schema: str) -> str:
    return f"SHA-256 {check(project.artifact(schema), schema)[:8]}…"
