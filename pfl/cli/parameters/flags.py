"""A key of ``params.yaml`` as the flag of a stage: what DVC makes of its value, and who refuses it.

DVC unpacks a section into flags: ``true`` becomes ``--key``, ``false`` becomes ``--no-key``, a list
a flag for each of its entries, and anything else its text (``dvc.parsing.interpolate``, under the
settings of ``.dvc/config``). The stage's own parser then judges: kinds, choices and ranges.
"""

import math
from dataclasses import dataclass
from typing import Any

import click

from pfl.errors import InputError
from pfl.runtime.values import Range, may_be
from stages._training import Setting


@dataclass(frozen=True)
class Flag:
    """A flag of a stage's command; ``key`` is the parameter's, with its section."""

    command: click.Command
    option: click.Option
    key: str

    def refusal(self, value: Any) -> click.ClickException | InputError | None:
        """What the stage has against the value as DVC hands it over; None if it takes it."""
        context = click.Context(self.command)
        try:
            given, rest, _ = self.command.make_parser(context).parse_args(self.words(value))
            if rest:
                return click.UsageError(f"Got unexpected extra arguments ({' '.join(rest)}).")
            self.option.handle_parse_result(context, given, rest)
        except (click.ClickException, InputError) as error:
            return error
        return None

    def words(self, value: Any) -> list[str]:
        """The value as DVC makes it flags, without the shell's quotes."""
        name = self.option.opts[0].removeprefix("--")
        if isinstance(value, bool):
            return [f"--{name}" if value else f"--no-{name}"]
        if isinstance(value, list):
            return [word for one in value for word in (f"--{name}", str(one))]
        return [f"--{name}", str(value)]

    @property
    def is_switch(self) -> bool:
        """Whether it is true or false."""
        return self.option.is_flag

    @property
    def is_list(self) -> bool:
        """Whether it may be given again."""
        return self.option.multiple

    @property
    def is_text(self) -> bool:
        """Whether any text will do, such as a path or a name."""
        free = not self.option.callback and not isinstance(self.option.type, click.Choice)
        return free and self.number is None and not self.is_switch

    @property
    def is_path(self) -> bool:
        """Whether it is the path of a file or folder."""
        return isinstance(self.option.type, click.Path)

    @property
    def number(self) -> tuple[type[Any], Range | None] | None:
        """The kind of number that it is, and its range; None for no number."""
        kind = self.option.type
        if isinstance(kind, Setting):
            return kind.kind, kind.within
        for ranged, plain, made in (
            (click.IntRange, click.types.IntParamType, int),
            (click.FloatRange, click.types.FloatParamType, float),
        ):
            if isinstance(kind, ranged):
                low = -math.inf if kind.min is None else kind.min
                high = math.inf if kind.max is None else kind.max
                return made, Range(low, high, not kind.min_open, not kind.max_open)
            if isinstance(kind, plain):
                return made, None
        return None

    @property
    def may_be(self) -> str:
        """What each value may be, for a sentence."""
        if self.is_switch:
            return "true or false"
        if isinstance(self.option.type, click.Choice):
            return f"one of {', '.join(self.option.type.choices)}"
        return "text" if self.number is None else may_be(*self.number)
