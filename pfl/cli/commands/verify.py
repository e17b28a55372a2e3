"""``pfl verify``: whether the cached artifacts are whole, current, and fit together."""

from collections import Counter
from typing import Annotated

import typer

from pfl.cli.commands.flags import HERE, Json, ProjectFolder
from pfl.cli.display import show


def verify(
    quick: Annotated[bool, typer.Option("--quick", help="Leave out what recomputes.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Go on after the first artifact that is wrong.")
    ] = False,
    project: ProjectFolder = HERE,
    as_json: Json = False,
) -> None:
    """Check artifacts from upstream to downstream and name the first that is wrong.

    Checksums, schemas, DVC's state; that the partition is disjoint and complete, that uploads are
    the clients' sums and add up to the server's, that every head solves its normal equations, and
    that heads have the reported accuracies. Exit code 1 if something is wrong.
    """
    from pfl.artifacts.project import Project
    from pfl.cli.verification.outcome import OK, SKIPPED, WRONG, run
    from pfl.cli.verification.plan import plan

    outcomes = list(run(tuple(plan(Project(project))), quick, everything))
    first = next((outcome for outcome in outcomes if outcome.result == WRONG), None)
    count = Counter(outcome.result for outcome in outcomes)
    content: dict[str, object] = {
        "verdict": "wrong" if first else "right, as far as checked",
        "checked": count[OK],
        "skipped": count[SKIPPED],
        "first-wrong": first.check.artifact if first else None,
        "why": first.detail if first else None,
        "checks": [
            {
                "artifact": outcome.check.artifact,
                "check": outcome.check.name,
                "result": outcome.result,
                "detail": outcome.detail,
            }
            for outcome in outcomes
        ],
    }
    show(content, as_json)
    if first:
        typer.secho(f"Error: {first.check.artifact} is wrong: {first.detail}", err=True, fg="red")
        raise typer.Exit(1)
