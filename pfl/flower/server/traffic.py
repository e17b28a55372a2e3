"""Bytes and seconds of each step of a run: what a site pays for."""

from collections.abc import Iterable
from dataclasses import dataclass

from flwr.app import RecordDict

from pfl.artifacts.csv import csv_text


@dataclass(frozen=True)
class Traffic:
    """One message to each of some clients, and their answers.

    Attributes:
        kind: its message type.
        clients: that were asked.
        answers: that arrived.
        down: bytes of arrays sent, all clients together.
        up: bytes of arrays that arrived.
        seconds: until the last answer.
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
    return csv_text(
        header, ([s.kind, s.clients, s.answers, s.down, s.up, s.seconds] for s in steps)
    )
