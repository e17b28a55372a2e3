"""The ``pfl`` command: look at what the pipeline made, check it, use it, change who is in it."""

from collections.abc import Callable

import typer

from pfl.cli.commands import membership
from pfl.cli.commands.check import check
from pfl.cli.commands.compare import compare
from pfl.cli.commands.export import export
from pfl.cli.commands.group import Commands
from pfl.cli.commands.inspect import inspect
from pfl.cli.commands.merge_features import merge_features
from pfl.cli.commands.predict import predict
from pfl.cli.commands.results import results
from pfl.cli.commands.sweep import sweep
from pfl.cli.commands.verify import verify

app = typer.Typer(cls=Commands, help=__doc__, no_args_is_help=True, add_completion=True)
COMMANDS: tuple[Callable[..., None], ...] = (
    check,
    results,
    inspect,
    verify,
    predict,
    export,
    compare,
    sweep,
    merge_features,
    membership.forget,
    membership.join,
    membership.upload,
)
for command in COMMANDS:
    app.command()(command)


def main() -> None:
    """Run the command."""
    app()
