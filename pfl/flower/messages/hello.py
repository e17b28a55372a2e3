"""The first message: who a client is, and whether what it has goes together with the others'.

A client tells its number and a *recipe*, everything that its data must have in common with the
others' (backbone, hash of its weights, transform, fixed point; or the size of its images). Its
hash is the fingerprint. Whoever has another one than most is at fault before it
has sent anything of its data.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from flwr.app import ConfigRecord, RecordDict

from pfl.errors import InputError
from pfl.flower.messages.kinds import CLASSES
from pfl.runtime.scratch import fingerprint

HELLO = "hello"


@dataclass(frozen=True)
class Hello:
    """What a client says first: its number, its recipe, and the names of its classes.

    ``facts`` are what the server wants to know of it alone.
    """

    client: int
    recipe: Mapping[str, object]
    classes: tuple[str, ...]
    facts: Mapping[str, object]

    @property
    def fingerprint(self) -> str:
        """The recipe's hash."""
        return fingerprint(self.recipe)


def hello_record(hello: Hello) -> RecordDict:
    """A greeting as a record."""
    texts = {"recipe": json.dumps(hello.recipe), "facts": json.dumps(hello.facts)}
    record = ConfigRecord({"client": hello.client, CLASSES: list(hello.classes), **texts})
    return RecordDict({HELLO: record})


def parse_hello(node: int, content: RecordDict) -> Hello:
    """Inverse of :func:`hello_record`."""
    del node  # every way to parse an answer has the same signature
    record = content.config_records[HELLO]
    recipe, facts = (json.loads(str(record[name])) for name in ("recipe", "facts"))
    client, names = record["client"], record[CLASSES]
    if not isinstance(client, int) or client < 0:
        raise InputError(f"it says that its number is {client!r}")
    if not isinstance(names, list) or len(set(names)) < len(names):
        raise InputError(f"its classes are {names!r}")
    return Hello(client, recipe, tuple(map(str, names)), facts)
