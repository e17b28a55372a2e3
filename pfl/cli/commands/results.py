"""``pfl results``: what the heads and all methods reach."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pfl.artifacts.json import load_report
from pfl.cli.commands.flags import Json
from pfl.cli.results import comparison_table, difference_tables, heads_note, heads_table

REPORT, COMPARISON = Path("reports/fedhip"), Path("reports/comparison")


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
        content = metrics if methods is None else {**metrics, "comparison": methods}
        typer.echo(json.dumps(content, indent=2))
        return
    shown = [heads_table(path, metrics), heads_note(path, metrics)]
    if methods is not None:
        shown += [comparison_table(beside, methods), *difference_tables(beside, methods)]
    console = Console()
    for part in shown:
        console.print(part, highlight=False)
    for folder in (report, comparison) if methods is not None else (report,):
        for file in sorted(folder.iterdir()):
            console.print(f"  {file}", highlight=False)
