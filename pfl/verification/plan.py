"""All checks of a project, in the order of the pipeline."""

from collections.abc import Iterator
from functools import partial

from pfl.artifacts import check
from pfl.project import STAGES, Project
from pfl.verification import heads, invariants
from pfl.verification.outcome import Check
from pfl.verification.state import DvcState

REPORT, COMPARISON = "reports/fedhip", "reports/comparison"


def plan(project: Project) -> Iterator[Check]:
    """Every check, from upstream to downstream: of each artifact the cheapest first."""
    state = DvcState(project.root)
    for schema, stage in STAGES.items():
        out = f"data/{schema}.h5"
        yield Check(schema, "checksum and schema", (), partial(_file, project, schema))
        yield Check(schema, "DVC", (), partial(state.check, stage, out))
        yield from _between(project, schema)
    yield Check(REPORT, "DVC", (), partial(state.check, "evaluate", REPORT))
    yield Check(
        REPORT,
        "accuracies",
        ("index", "clients", "features", "server", "heads"),
        partial(heads.accuracies, project),
        slow=True,
    )
    for stage in state.stages:
        if stage.startswith("train@"):
            method, _, seed = stage.removeprefix("train@").rpartition("-")
            out = f"runs/{method}/seed-{seed}.safetensors"
            yield Check(out, "DVC", (), partial(state.check, stage, out, optional=True))
    yield Check(COMPARISON, "DVC", (), partial(state.check, "compare", COMPARISON, optional=True))


def _file(project: Project, schema: str) -> str:
    return f"SHA-256 {check(project.artifact(schema), schema)[:8]}…"


def _between(project: Project, schema: str) -> Iterator[Check]:
    """What must hold between an artifact and those before it."""
    table = {
        "index": [("samples", ("images",), invariants.samples, False)],
        "clients": [("partition", ("index",), invariants.partition, False)],
        "features": [("rows", ("index",), invariants.rows, False)],
        "uploads": [
            ("samples sent", ("clients", "features"), invariants.upload_counts, False),
            ("sums sent", ("index", "clients", "features"), invariants.upload_sums, True),
        ],
        "server": [
            ("sums", ("uploads",), invariants.server_sums, False),
            ("normal equations", (), invariants.server_head, False),
        ],
        "heads": [
            ("shapes", ("clients", "server"), heads.shapes, False),
            ("normal equations", ("uploads", "server"), heads.equations, True),
        ],
    }
    for name, needs, work, slow in table.get(schema, []):
        yield Check(schema, name, needs, partial(work, project), slow)
