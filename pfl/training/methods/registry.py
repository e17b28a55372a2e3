"""The methods by name, and their settings as ``params.yaml`` has them."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, get_type_hints

from torch import nn

from pfl.errors import InputError
from pfl.training.algorithm import Algorithm
from pfl.training.methods import apfl, fedbabu, pfedme
from pfl.training.methods.cd2pfed import cd2pfed
from pfl.training.methods.ditto import ditto
from pfl.training.methods.fedavg import fedavg
from pfl.training.methods.fedavg_ft import fedavg_ft
from pfl.training.methods.fedbn import fedbn
from pfl.training.methods.fedper import fedper
from pfl.training.methods.fedprox import fedprox
from pfl.training.methods.fedrep import fedrep
from pfl.training.methods.lg_fed import lg_fed
from pfl.training.methods.local import local


@dataclass(frozen=True)
class Method:
    """How a method is made.

    Attributes:
        schema: a callable whose annotated arguments, but for ``model``, are the settings.
        make: (model, settings by argument name) -> the algorithm.
    """

    schema: Callable[..., Any]
    make: Callable[[nn.Module, dict[str, Any]], Algorithm]


def _baseline(function: Callable[..., Algorithm]) -> Method:
    return Method(function, lambda model, settings: function(model, **settings))


METHODS = {
    "cd2-pfed": Method(
        cd2pfed.Settings,
        lambda model, settings: cd2pfed.algorithm(model, cd2pfed.Settings(**settings)),
    ),
    "fedavg": _baseline(fedavg),
    "local": _baseline(local),
    "fedper": _baseline(fedper),
    "lg-fed": _baseline(lg_fed),
    "fedrep": _baseline(fedrep),
    "fedbn": _baseline(fedbn),
    "fedprox": _baseline(fedprox),
    "ditto": _baseline(ditto),
    "fedavg-ft": _baseline(fedavg_ft),
    "fedbabu": _baseline(fedbabu.fedbabu),
    "apfl": _baseline(apfl.apfl),
    "pfedme": _baseline(pfedme.pfedme),
}


def make_algorithm(
    name: str, model: nn.Module, settings: Mapping[str, object], section: str = ""
) -> Algorithm:
    """The method ``name`` with the settings of its section, for networks like ``model``.

    Args:
        name: a key of :data:`METHODS`.
        model: the network, of which only the architecture counts.
        settings: by name, as ``params.yaml`` has them.
        section: where that is, for messages; ``train.<name>`` if empty.

    Raises:
        InputError: there is no such method; a setting is missing, unknown or of the wrong kind; or
            the method refuses its value or the network.
    """
    if name not in METHODS:
        raise InputError(f"There is no method '{name}': choose from {', '.join(METHODS)}.")
    method, section = METHODS[name], section or f"train.{name}"
    kinds = _settings(method.schema)
    missing, unknown = kinds.keys() - settings.keys(), settings.keys() - kinds.keys()
    if missing or unknown:
        wrong = [f"lacks {', '.join(sorted(missing))}"] if missing else []
        wrong += [f"does not know {', '.join(sorted(unknown))}"] if unknown else []
        known = f"are {', '.join(kinds)}" if kinds else "do not exist"
        raise InputError(
            f"Section {section} of the parameters {' and '.join(wrong)}: its settings {known}."
        )
    values = {
        key.replace("-", "_"): _value(f"{section}.{key}", kind, settings[key])
        for key, kind in kinds.items()
    }
    return method.make(model, values)


def _settings(schema: Callable[..., Any]) -> dict[str, type]:
    """Names, as ``params.yaml`` writes them, and types of a method's settings."""
    hints = get_type_hints(schema.__init__ if inspect.isclass(schema) else schema)
    names = [name for name in inspect.signature(schema).parameters if name != "model"]
    return {name.replace("_", "-"): hints[name] for name in names}


def _value(parameter: str, kind: type[Any], value: object) -> object:
    """The value as its type; whole numbers are also floats, but nothing else is converted."""
    if issubclass(kind, StrEnum):
        if value in list(kind):
            return kind(str(value))
        raise InputError(f"{parameter} is {value}: choose from {', '.join(kind)}.")
    # In Python True is an integer; for a number of layers it is a mistake.
    numbers = (int, float) if kind is float else (kind,)
    if isinstance(value, numbers) and isinstance(value, bool) == (kind is bool):
        return kind(value)
    names = {bool: "true or false", int: "a whole number", float: "a number"}
    raise InputError(f"{parameter} is {value}: it must be {names[kind]}.")
