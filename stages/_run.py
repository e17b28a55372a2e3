"""What every stage does around its work: parse flags, log, keep BLAS to one thread, end clearly."""

import errno
import functools
import logging
import math
import os
import sys
import time
from collections.abc import Callable

import typer
from threadpoolctl import threadpool_limits

from pfl.errors import InputError

log = logging.getLogger("pfl")
LARGEST_SEED = 2**63 - 1  # what artifacts can hold
FULL = "The disk is full: free some space and run again; finished artifacts are intact."


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
        if error.errno == errno.ENOSPC:
            _stop(f"{error.filename or 'Output'} could not be written. {FULL}")
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            _stop(
                f"{error.filename}: {os.strerror(error.errno)}; make it accessible and run again."
            )
        raise


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


def _stop(sentence: str) -> None:
    typer.secho(f"Error: {sentence}", err=True, fg="red")
    raise SystemExit(1)
