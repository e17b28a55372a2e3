"""``pfl compare``: what differs between two runs."""

from typing import Annotated

import typer

from pfl.cli.commands.flags import HERE, Json, ProjectFolder
from pfl.cli.display import show

RUN = "A git revision, a DVC experiment, a folder with a copy of the project, or workspace."


def compare(
    first: Annotated[str, typer.Argument(help=RUN, metavar="RUN")],
    second: Annotated[
        str, typer.Argument(help="The same; by default workspace.", metavar="RUN")
    ] = "workspace",
    most: Annotated[
        int, typer.Option(min=0, help="Clients to list that gained, and that lost, most.")
    ] = 5,
    project: ProjectFolder = HERE,
    as_json: Json = False,
) -> None:
    """Compare two runs: parameters that differ, accuracies, and the clients that changed most.

    Clients are compared by number and by their personalized heads.
    """
    from pfl.cli.runs.differences import differences
    from pfl.cli.runs.revisions import reader

    content = differences(reader(first, project), reader(second, project), most)
    show({"first": first, "second": second, **content}, as_json)
