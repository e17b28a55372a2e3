"""The ``pfl`` command: look at what the pipeline made, check it, use it, change who is in it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pfl.commands import membership
from pfl.commands.compare import compare
from pfl.commands.export import export
from pfl.commands.flags import Json
from pfl.commands.group import Commands
from pfl.commands.inspect import inspect
from pfl.commands.predict import predict
from pfl.commands.verify import verify
from pfl.reports import load_report
from pfl.results import comparison_table, heads_note, heads_table

REPORT, COMPARISON = Path("reports/fedhip"), Path("reports/comparison")

app = typer.Typer(cls=Commands, help=__doc__, no_args_is_help=True, add_completion=True)
COMMANDS: tuple[Callable[..., None], ...] = (
    inspect,
    verify,
    predict,
    export,
    compare,
    membership.forget,
    membership.join,
    membership.upload,
)
for command in COMMANDS:
    app.command()(command)


@app.command()
def results(
    report: Annotated[Path, typer.Option(help="Folder of FedHiP's report.")] = REPORT,
    comparison: Annotated[
        Path, typer.Option(help="Folder of the comparison; shown if it exists.")
    ] = COMPARISON,
    as_json: Json = False,
) -> None:
    """Show the accuracy of FedHiP's heads and of all methods, and where the files are."""
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
