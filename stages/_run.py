"""What every stage does around its work: parse flags, log, keep BLAS to one thread, end clearly."""

import functools
import inspect
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import click
import typer
from threadpoolctl import threadpool_limits

from pfl.errors import InputError, trouble
from pfl.runtime.locks import only_writer
from pfl.runtime.outside import refuse_links
from pfl.runtime.values import Device, Precision

log = logging.getLogger("pfl")
Quiet = Annotated[
    bool, typer.Option("--quiet", envvar="PFL_QUIET", help="Log warnings and errors only.")
]
NO_PARAMETERS = frozenset({"quiet", "scratch", "shard"})  # flags that change no result
BY_DVC = "DVC_STAGE"  # a variable that DVC gives the commands that it runs
LARGEST_SEED = 2**63 - 1  # that an artifact's attributes hold
HINT = "`dvc repro` makes flags of the parameters: `pfl check` says by their keys what is wrong."
PrecisionFlag = Annotated[Precision, typer.Option(help="fp32 or bf16.")]
DeviceFlag = Annotated[Device, typer.Option(help="auto, cpu or cuda.")]
Scratch = Annotated[Path, typer.Option(help="Folder for unfinished work, which a rerun takes up.")]


def run(stage: Callable[..., None], *outputs: str, alone: bool = True) -> None:
    """Run a stage function as a command whose flags are the function's signature, and ``--quiet``.

    Exit codes: 0 done, 1 the input cannot be used (one sentence on stderr), 2 a flag is wrong.
    BLAS gets one thread: results then do not depend on the number of cores, and stages that
    want more cores use processes or threads over clients or batches.

    Args:
        stage: the function.
        outputs: names of its parameters that are files or folders it writes, told at the end.
        alone: whether nothing else may write to the same folders meanwhile. A stage that a killed
            `dvc repro` left behind could otherwise replace what the next run has made.
    """
    try:
        app_of(stage, *outputs, alone=alone)()
    except SystemExit as end:
        if end.code == click.UsageError.exit_code:
            typer.echo(HINT, err=True)
        raise
    except InputError as error:
        _stop(str(error))
    except OSError as error:
        sentence = trouble(error)
        if sentence is None:
            raise
        _stop(f"{sentence}, and run again. Finished artifacts are intact.")


def parser(stage: Callable[..., None]) -> click.Command:
    """The command that parses the flags of a stage function, for whoever only wants to ask it."""
    return typer.main.get_command(app_of(stage, alone=False))


def app_of(stage: Callable[..., None], *outputs: str, alone: bool = True) -> typer.Typer:
    """The command that :func:`run` runs."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(_command(stage, outputs, alone))
    return app


def _command(
    stage: Callable[..., None], outputs: Sequence[str], alone: bool
) -> Callable[..., None]:
    """The stage with a flag ``--quiet``, and a line at its end on what it wrote and how long."""

    @functools.wraps(stage)
    def command(*, quiet: bool, **flags: Any) -> None:
        level = logging.WARNING if quiet else logging.INFO
        logging.basicConfig(level=level, format="%(message)s", stream=sys.stderr)
        start = time.monotonic()
        folders = {flags[name].parent for name in outputs}
        if BY_DVC in os.environ:
            refuse_links(Path(), folders)
        with only_writer(folders if alone else ()), threadpool_limits(1):
            stage(**flags)
        wrote = " and ".join(_size(flags[name]) for name in outputs)
        log.info("%s in %.1f s.", f"Wrote {wrote}" if wrote else "Done", time.monotonic() - start)

    signature = inspect.signature(stage, eval_str=True)
    own = inspect.Parameter(
        "quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet
    )
    parameters = [*signature.parameters.values(), own]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _size(path: Path) -> str:
    """A file and its size, or a folder and how many files are in it."""
    if path.is_dir():
        return f"{path} ({sum(item.is_file() for item in path.rglob('*'))} files)"
    size, unit = float(path.stat().st_size), "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{path} ({size:.4g} {unit})"


def finite(value: float) -> float:
    """Refuse a flag that is infinite or not a number."""
    if not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value


def positive(value: float) -> float:
    """Refuse a flag that is not a finite number above 0."""
    if not finite(value) > 0:
        raise typer.BadParameter(f"{value} is not above 0.")
    return value


def obeying(rule: Callable[[Any], object]) -> Callable[[Any], Any]:
    """A callback for a flag that ``rule`` refuses by a sentence of its own, an ``InputError``.

    So a wrong value is told before anything is read, and `pfl check` tells the same.
    """

    def callback(value: Any) -> Any:
        rule(value)
        return value

    return callback


def _stop(sentence: str) -> None:
    typer.secho(f"Error: {sentence}", err=True, fg="red")
    raise SystemExit(1)
