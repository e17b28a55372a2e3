"""``pfl sweep``: accuracy against a parameter, over DVC's experiments."""

from pathlib import Path
from typing import Annotated

import typer


def sweep(
    parameter: Annotated[str, typer.Argument(help="Dotted name, as personalize.alpha.")],
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("reports/sweep"),
    report: Annotated[Path, typer.Option(help="The report's page.")] = Path("reports/index.html"),
) -> None:
    """Draw accuracy against a parameter over all DVC experiments; docs/sweeps.md."""
    from pfl.cli.sweep.experiments import experiments
    from pfl.cli.sweep.page import write_sweep
    from pfl.cli.sweep.series import gather_sweep

    write_sweep(gather_sweep(experiments(), parameter), out, report)
    for path in sorted(out.iterdir()):
        typer.echo(path)
