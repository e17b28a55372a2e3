"""Values that people set: numbers in a range, choices, and numbers that may be left to ``auto``.

Not pydantic's: its errors would have to be written anew to name a key and a remedy, and the stages'
help wants the ranges as text.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, get_args, get_type_hints

from pfl.errors import InputError


class Precision(StrEnum):
    """Type of the matrix products inside a network."""

    fp32 = "fp32"
    bf16 = "bf16"


class Device(StrEnum):
    """Where networks run; ``auto`` is a GPU if there is one."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


@dataclass(frozen=True)
class Range:
    """The finite numbers from ``low`` to ``high``, each of which belongs to it or does not."""

    low: int | float
    high: int | float = math.inf
    with_low: bool = True
    with_high: bool = True

    def __contains__(self, value: int | float) -> bool:
        """Whether the number lies in it; NaN lies nowhere."""
        inside = self.low < value < self.high
        ends = (value == self.low and self.with_low) or (value == self.high and self.with_high)
        return math.isfinite(value) and (inside or ends)

    def __str__(self) -> str:
        """As in ``0 < x ≤ 1``."""
        left = f"{self.low:g} {'≤' if self.with_low else '<'} x"
        right = f" {'≤' if self.with_high else '<'} {self.high:g}"
        return left + right if self.high < math.inf else left


Kind = tuple[type, Range | None]  # of a setting: the type, and the range of a number


def annotated(schema: Callable[..., Any], *without: str) -> dict[str, Kind]:
    """The settings that a class or a function declares, but those ``without``.

    Names are as ``params.yaml`` writes them. A range stands in the annotation:
    ``share: Annotated[float, Range(0, 1)]``.
    """
    hints = get_type_hints(schema, include_extras=True).items()
    parts = {name: get_args(hint) or (hint, None) for name, hint in hints if name not in without}
    return {name.replace("_", "-"): (kind, within) for name, (kind, within) in parts.items()}


def checked(parameter: str, value: object, kind: type[Any], within: Range | None = None) -> Any:
    """The value as its type; whole numbers are also floats, but nothing else is converted.

    Raises:
        InputError: it is of another kind or out of its range; ``parameter``, its key in
            ``params.yaml``, is named.
    """
    shown = f"'{value}'" if isinstance(value, str) else value
    if issubclass(kind, StrEnum):
        if value in list(kind):
            return kind(str(value))
        raise InputError(f"{parameter} is {shown}: choose from {', '.join(kind)}.")
    numbers = (int, float) if kind is float else (kind,)
    # In Python True is an integer; for a number of layers it is a mistake.
    if not isinstance(value, numbers) or isinstance(value, bool) != (kind is bool):
        raise InputError(f"{parameter} is {shown}: it must be {may_be(kind)}.")
    if within is not None and value not in within:
        raise InputError(f"{parameter} is {value}: choose {may_be(kind, within)}.")
    return kind(value)


def may_be(kind: type[Any], within: Range | None = None) -> str:
    """What :func:`checked` lets through, for a sentence."""
    if issubclass(kind, StrEnum):
        return f"one of {', '.join(kind)}"
    what = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
    return what if within is None else f"{what} with {within}"


def number_or_auto(
    value: object, parameter: str, zero: bool = False, word: str = "auto"
) -> float | None:
    """The finite number above 0, or from 0 on, that is given; None for ``auto``, or ``word``.

    ``value`` is a number, or the text of one, as a command's flag has it.

    Raises:
        InputError: it is neither.
    """
    if value == word:
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(str(value))
    except ValueError:
        number = math.nan
    if number not in Range(0, with_low=zero):
        bound = "of 0 or more" if zero else "above 0"
        shown = f"'{value}'" if isinstance(value, str) else value
        raise InputError(f"{parameter} is {shown}: it must be {word} or a finite number {bound}.")
    return number


def whole_or_auto(value: object, parameter: str) -> int | None:
    """The whole number from 1 on that is given, as above; None for ``auto``.

    Raises:
        InputError: it is neither.
    """
    try:
        number = number_or_auto(value, parameter)
    except InputError:
        number = math.nan
    if number is None or number.is_integer():
        return None if number is None else int(number)
    shown = f"'{value}'" if isinstance(value, str) else value
    raise InputError(f"{parameter} is {shown}: it must be auto or a whole number above 0.")
