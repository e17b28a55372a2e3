"""Frozen dataclasses of numbers and bytes as JSON text, and back by their annotations.

It carries the messages of a secure sum, and what a client keeps between two of them. The work is
msgspec's: unlike pydantic it takes the library's plain dataclasses, nested and with bytes, as they
are.
"""

from typing import TypeVar

import msgspec

Value = TypeVar("Value")


def encode(value: object) -> str:
    """The text of a dataclass; bytes are in base64."""
    return msgspec.json.encode(value).decode()


def decode(kind: type[Value], text: object) -> Value:
    """Inverse of :func:`encode` for a dataclass of this type.

    Raises:
        ValueError: the text is of something else; it says of what, and where.
    """
    return msgspec.json.decode(str(text), type=kind)
