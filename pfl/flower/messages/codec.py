"""Frozen dataclasses of numbers and bytes as JSON text, and back by their annotations.

It carries the messages of a secure sum, and what a client keeps between two of them.
"""

import json
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

Value = TypeVar("Value")


def encode(value: object) -> str:
    """The text of a dataclass."""
    return json.dumps(_plain(value))


def decode(kind: type[Value], text: object) -> Value:
    """Inverse of :func:`encode` for a dataclass of this type.

    Raises:
        ValueError: the text is of something else.
    """
    return cast(Value, _typed(kind, json.loads(str(text))))


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _typed(kind: Any, plain: Any) -> Any:
    if is_dataclass(kind):
        hints = get_type_hints(cast(type, kind))
        return kind(**{name: _typed(hint, plain[name]) for name, hint in hints.items()})  # type: ignore[operator]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is types.UnionType:  # of a dataclass and None
        return None if plain is None else _typed(arguments[0], plain)
    if origin is dict:
        return {int(key): _typed(arguments[1], item) for key, item in plain.items()}
    if origin is tuple:
        return tuple(_typed(arguments[0], item) for item in plain)
    if kind is bytes:
        return bytes.fromhex(plain)
    if not isinstance(plain, kind):
        raise ValueError(f"{plain!r} is no {kind.__name__}")
    return plain
