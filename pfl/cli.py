"""The ``pfl`` command: look at what the pipeline made."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

REPORT = Path("reports/fedhip")
HEADS = {"local": "local L_k", "global": "global G", "personalized": "personalized P_k"}
COLUMNS = {
    "mean": "mean",
    "weighted": "weighted",
    "std": "std",
    "worst-decile": "worst decile",
    "global-test": "global test",
}

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=True)


@app.callback()
def commands() -> None:
    """Look at what the pipeline made."""


@app.command()
def results(
    report: Annotated[Path, typer.Option(help="Folder of a finished run's report.")] = REPORT,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")] = False,
) -> None:
    """Show the accuracy of every kind of head over the clients, and where the files are."""
    path = report / "metrics.json"
    if not path.is_file():
        typer.secho(f"Error: {path} does not exist: run `make repro`.", err=True, fg="red")
        raise SystemExit(1)
    metrics: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if as_json:
        typer.echo(json.dumps(metrics, indent=2))
        return
    console = Console()
    console.print(_accuracies(metrics))
    missing = metrics["clients-without-test"]
    if missing:
        console.print(f"{missing} clients hold no test samples and are left out of the table.")
    for name in sorted(item.name for item in report.iterdir()):
        console.print(f"  {report / name}", highlight=False)


def _accuracies(metrics: dict[str, Any]) -> Table:
    title = f"Accuracy in % on the clients' own test sets, {metrics['clients']} clients"
    table = Table(title=title, box=box.SIMPLE_HEAD)
    table.add_column("head")
    for heading in COLUMNS.values():
        table.add_column(heading, justify="right")
    for key, label in HEADS.items():
        table.add_row(label, *(_percent(metrics[key].get(column)) for column in COLUMNS))
    return table


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def main() -> None:
    """Run the command."""
    app()
