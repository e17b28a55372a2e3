"""``pfl check``: whether params.yaml says what it can, before anything runs."""

from collections.abc import Mapping
from typing import Any

import typer

from pfl.cli.commands.flags import HERE, Json, ProjectFolder
from pfl.cli.display import show


def check(project: ProjectFolder = HERE, as_json: Json = False) -> None:
    """Say all that is wrong in params.yaml, by section and key; docs/command.md.

    Kinds and ranges are those of the stages' own flags. Exit code 1 if something is wrong.
    """
    from pfl.cli.parameters.check import PARAMETERS, check_parameters

    checked = check_parameters(project)
    findings, path = checked.findings, project / PARAMETERS
    if as_json:
        rows = [
            {"key": finding.key, "line": finding.line, "sentence": finding.sentence}
            for finding in findings
        ]
        runs = {} if findings else {"runs": checked.runs}
        show({"verdict": "wrong" if findings else "right", "findings": rows, **runs}, as_json)
    elif not findings:
        typer.echo(f"{path} is right: {_told(checked.runs)}.")
    for finding in findings:
        place = path if finding.line is None else f"{path}, line {finding.line}"
        typer.secho(f"Error: {place}: {finding.sentence}", err=True, fg="red")
    if findings:
        raise typer.Exit(1)


def _told(runs: Mapping[str, Any]) -> str:
    """What will run, in one line."""
    methods, heads, seeds = (len(runs[name]) for name in ("methods", "heads", "seeds"))
    who = f"{runs['dataset']} over {runs['clients']} clients ({runs['scheme']})"
    return f"{who}; {methods} methods and {heads} heads to train, once for each of {seeds} seed(s)"
