"""``pfl inspect``: what an artifact is, where it comes from, and what is in it."""

from pathlib import Path
from typing import Annotated

import typer

from pfl.cli.commands.flags import Json
from pfl.cli.display import show
from pfl.errors import InputError


def inspect(
    file: Annotated[Path, typer.Argument(help="An artifact of data/, or models of runs/.")],
    client: Annotated[
        int | None, typer.Option(help="Tell of this client alone, and more of it.")
    ] = None,
    png: Annotated[
        Path | None, typer.Option(help="Of images.h5: draw examples of each class to this file.")
    ] = None,
    index: Annotated[
        Path | None, typer.Option(help="For --png: the index, by default index.h5 beside FILE.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what a file is, which stage made it from what, and what is in it."""
    from pfl.cli.inspection.artifact import describe

    content = dict(describe(file, client))
    if png is not None:
        content["contact-sheet"] = _sheet(file, content, png, index)
    show(content, as_json)


def _sheet(
    file: Path, content: dict[str, object], png: Path, index: Path | None
) -> dict[str, object]:
    from pfl.cli.inspection.sheet import draw_sheet

    if not str(content.get("schema", "")).startswith("images/"):
        raise InputError(f"{file} holds no images to draw: give --png with data/images.h5.")
    left_out = draw_sheet(png, file, index or file.with_name("index.h5"))
    return {"file": str(png), "left-out": left_out or None}
