"""What every command does around its work: end clearly, and compute as the stages do."""

from typing import Any

import typer
from threadpoolctl import threadpool_limits
from typer.core import TyperGroup

from pfl.errors import InputError, trouble


class Commands(TyperGroup):
    """Commands that end with one sentence where the user's input cannot be used.

    Exit codes: 0 done, 1 the input cannot be used or something is wrong, 2 a flag is wrong. BLAS
    gets one thread, as in the stages, so that what they made can be recomputed to the bit.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        try:
            with threadpool_limits(1):
                return super().invoke(ctx)
        except InputError as error:
            sentence: str | None = str(error)
        except OSError as error:
            sentence = trouble(error)
            if sentence is None:
                raise
            sentence += ", and run again."
        typer.secho(f"Error: {sentence}", err=True, fg="red")
        raise SystemExit(1)
