"""What every stage does around its work: parse flags, log, keep BLAS to one thread, end clearly."""

import functools
import logging
import math
import sys
import time
from collections.abc import Callable

import typer
from threadpoolctl import threadpool_limits

from pfl.errors import InputError, trouble

log = logging.getLogger("pfl")
LARGEST_SEED = 2**63 - 1  # that an artifact's attributes hold


def run(stage: Callable[..., None]) -> None:
    """Run a stage function as a command whose flags are the function's signature.

    Exit codes: 0 done, 1 the input cannot be used (one sentence on stderr), 2 a flag is wrong.
    BLAS gets one thread: results then do not depend on the number of cores, and stages that
    want more cores use processes or threads over clients or batches.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)

    @functools.wraps(stage)
    def command(*args: object, **kwargs: object) -> None:
        start = time.monotonic()
        with threadpool_limits(1):
            stage(*args, **kwargs)
        log.info("Done in %.1f s.", time.monotonic() - start)

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command)
    try:
        app()
    except InputError as error:
        _stop(str(error))
    except OSError as error:
        sentence = trouble(error)
        if sentence is None:
            raise
        _stop(f"{sentence}, and run again. Finished artifacts are intact.")


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


def number_or_auto(text: str, flag: str, zero: bool = False) -> float | None:
    """The finite number above 0, or from 0 on, that a flag gives; None for ``auto``.

    Raises:
        typer.BadParameter: it is neither.
    """
    if text == "auto":
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and (value > 0 or (zero and value == 0))):
        bound = "of 0 or more" if zero else "above 0"
        raise typer.BadParameter(
            f"'{text}' must be auto or a finite number {bound}.", param_hint=flag
        )
    return value


def _stop(sentence: str) -> None:
    typer.secho(f"Error: {sentence}", err=True, fg="red")
    raise SystemExit(1)
