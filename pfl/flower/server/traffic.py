"""Bytes and seconds of each step of a run: what a site pays for."""

from collections.abc import Iterable
from dataclasses import astuple, dataclass

from flwr.app import RecordDict

from pfl.artifacts.csv import csv_text


@dataclass(frozen=True)
class Traffic:
    """One message to each of some clients, and the answers that arrived.

    ``down`` and ``up`` are bytes of the arrays, all clients together; ``seconds`` are until the
    last answer.
    """

    kind: str
    clients: int
    answers: int
    down: int
    up: int
    seconds: float


def array_bytes(content: RecordDict) -> int:
    """Bytes of a record's arrays, as they are sent: with the 128 of each one's header."""
    return sum(len(a.data) for record in content.array_records.values() for a in record.values())


def traffic_csv(steps: Iterable[Traffic]) -> str:
    """One line a step."""
    header = ["message", "clients", "answers", "down-bytes", "up-bytes", "seconds"]
    return csv_text(header, map(astuple, steps))
