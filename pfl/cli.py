"""The ``pfl`` command: look at what the pipeline made, and let clients leave and join."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pfl.commands import membership
from pfl.errors import InputError
from pfl.reports import load_report
from pfl.results import comparison_table, heads_note, heads_table

REPORT, COMPARISON = Path("reports/fedhip"), Path("reports/comparison")

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=True)
for command in (membership.forget, membership.join, membership.upload):
    app.command()(command)


@app.callback()
def commands() -> None:
    """Look at what the pipeline made, and let clients leave and join."""


@app.command()
def results(
    report: Annotated[Path, typer.Option(help="Folder of FedHiP's report.")] = REPORT,
    comparison: Annotated[
        Path, typer.Option(help="Folder of the comparison; shown if it exists.")
    ] = COMPARISON,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not tables.")] = False,
) -> None:
    """Show the accuracy of FedHiP's heads and of all methods, and where the files are."""
    try:
        _show(report, comparison, as_json)
    except InputError as error:
        typer.secho(f"Error: {error}", err=True, fg="red")
        raise SystemExit(1) from error


def _show(report: Path, comparison: Path, as_json: bool) -> None:
    path, beside = report / "metrics.json", comparison / "comparison.json"
    metrics = load_report(path)
    methods = load_report(beside) if beside.exists() else None
    if as_json:
        told = metrics if methods is None else {**metrics, "comparison": methods}
        typer.echo(json.dumps(told, indent=2))
        return
    shown = [heads_table(path, metrics), heads_note(path, metrics)]
    shown += [] if methods is None else [comparison_table(beside, methods)]
    console = Console()
    for part in shown:
        console.print(part, highlight=False)
    for folder in (report, comparison) if methods is not None else (report,):
        for name in sorted(item.name for item in folder.iterdir()):
            console.print(f"  {folder / name}", highlight=False)


@app.command()
def sweep(
    parameter: Annotated[str, typer.Argument(help="Dotted name, as personalize.alpha.")],
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("reports/sweep"),
    report: Annotated[Path, typer.Option(help="The report's page.")] = Path("reports/index.html"),
) -> None:
    """Draw accuracy against a parameter over all DVC experiments; docs/sweeps.md."""
    from pfl.sweep.experiments import experiments
    from pfl.sweep.page import write_sweep
    from pfl.sweep.series import sweep as gather

    try:
        write_sweep(gather(experiments(), parameter), out, report)
    except InputError as error:
        typer.secho(f"Error: {error}", err=True, fg="red")
        raise SystemExit(1) from error
    for name in sorted(item.name for item in out.iterdir()):
        typer.echo(out / name)


def main() -> None:
    """Run the command."""
    app()
