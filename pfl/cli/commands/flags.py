"""Flags that more than one command has."""

from pathlib import Path
from typing import Annotated

import typer

from pfl.evaluation.metrics import HeadKind

Json = Annotated[bool, typer.Option("--json", help="Print JSON, not tables.")]
ProjectFolder = Annotated[
    Path, typer.Option("--project", help="Folder in which the pipeline ran.", file_okay=False)
]
Client = Annotated[int, typer.Option(help="Number of the client, from 0 on.")]
Weights = Annotated[
    Path | None,
    typer.Option(help="Weights of the backbone; by default those that params.yaml names."),
]
Head = Annotated[HeadKind, typer.Option(help="Which of the client's heads.")]
HERE = Path()
