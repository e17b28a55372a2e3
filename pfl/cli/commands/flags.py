"""Flags that more than one command has."""

from pathlib import Path
from typing import Annotated

import typer

from pfl.evaluation.metrics import HeadKind

NEW = "new"  # in place of a client's number


Json = Annotated[bool, typer.Option("--json", help="Print JSON, not tables.")]
ProjectFolder = Annotated[
    Path, typer.Option("--project", help="Folder in which the pipeline ran.", file_okay=False)
]
Client = Annotated[
    str,
    typer.Option(
        help="Number of the client, from 0 on, or new: a site without samples of its own, which "
        "gets the global head."
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(help="Weights of the backbone; by default those that params.yaml names."),
]
Head = Annotated[
    HeadKind | None,
    typer.Option(
        help="Which of the client's heads.", show_default="personalized; global of a new client"
    ),
]
Prior = Annotated[
    str | None,
    typer.Option(
        help="Class shares that the scores are for: own (the client's), uniform (even), or a JSON "
        "or CSV file with a share or count of each class.",
        show_default="own; uniform of a new client",
    ),
]
HERE = Path()


def client_number(value: str) -> int | None:
    """The number of a client, or None for a new one."""
    if value == NEW:
        return None
    try:
        return int(value)
    except ValueError as error:
        raise typer.BadParameter(
            f"{value!r} is neither a number nor {NEW!r}.", param_hint="--client"
        ) from error


def head_kind(head: HeadKind | None, client: int | None) -> HeadKind:
    """The kind of head that is meant where none is named."""
    if head is not None:
        return head
    return HeadKind.shared if client is None else HeadKind.personalized
