"""The server's side of messages: one to each client, answers as they come, and who failed.

What can go wrong with a client (it is gone, fails, or answers what makes no sense) becomes a fault
with its number and node, on which the run stops, or goes on without it, as is configured.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from pfl.errors import InputError
from pfl.flower.messages.kinds import CLASSES, GREETINGS
from pfl.flower.server.traffic import Traffic, array_bytes

log = logging.getLogger(__name__)
AT_ONCE = 32  # answers asked for together: bounds what is in memory
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0  # seconds between two looks for answers

Parsed = TypeVar("Parsed")


@dataclass
class Exchange:
    """Messages to the nodes of a run.

    Attributes:
        grid: Flower's.
        seconds: how long a client may take for an answer.
        go_on: whether to go on without a client at fault.
        names: client numbers of the nodes that have told theirs.
        classes: of the run, by which clients number theirs; none before they are known.
        faults: who failed, and how, so far.
        traffic: what was sent so far.
    """

    grid: Grid
    seconds: float
    go_on: bool
    names: dict[int, int] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    faults: list[str] = field(default_factory=list)
    traffic: list[Traffic] = field(default_factory=list)

    def ask(
        self,
        contents: Mapping[int, RecordDict],
        kind: str,
        parse: Callable[[int, RecordDict], Parsed],
    ) -> Iterator[tuple[int, Parsed]]:
        """Send each node its record, and yield each answer, parsed, as it arrives.

        ``parse`` raises :class:`InputError` where an answer makes no sense.

        Raises:
            InputError: a client failed, and the run is to stop then.
        """
        if not contents:
            return
        start = time.monotonic()
        waiting = self._push(contents, kind)
        answers = received = 0
        for node, reply in self._arriving(waiting):
            received += array_bytes(reply.content) if reply.has_content() else 0
            parsed = self._parsed(node, reply, parse)
            if parsed is not None:
                answers += 1
                yield node, parsed
        sent = sum(map(array_bytes, contents.values()))
        passed = time.monotonic() - start
        self.traffic.append(Traffic(kind, len(contents), answers, sent, received, passed))
        for node in waiting.values():
            self.fault(node, f"it has not answered '{kind}' within {self.seconds:g} s")

    def _arriving(self, waiting: dict[str, int]) -> Iterator[tuple[int, Message]]:
        """Answers as they come, until it is too late; they are taken off ``waiting``."""
        deadline, pause = time.monotonic() + self.seconds, FIRST_PAUSE
        while waiting:
            late = time.monotonic() > deadline  # Then this look is the last.
            for reply in self._pull(waiting):
                pause = FIRST_PAUSE
                yield waiting.pop(reply.metadata.reply_to_message_id), reply
            if late:
                return
            if waiting:
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def fault(self, node: int, what: str) -> None:
        """A client failed: stop, or note it and go on.

        Raises:
            InputError: the run is to stop.
        """
        who = f"Client {self.names[node]}" if node in self.names else "A client"
        sentence = f"{who} (node {node}) is at fault: {what.rstrip('.')}."
        if not self.go_on:
            raise InputError(f"{sentence} Set on-fault to go-on to go on without such clients.")
        log.warning("%s The run goes on without it.", sentence)
        self.faults.append(sentence)

    def _push(self, contents: Mapping[int, RecordDict], kind: str) -> dict[str, int]:
        """Send all; returns nodes by message."""
        for content in contents.values() if self.classes and kind not in GREETINGS else ():
            content[CLASSES] = ConfigRecord({CLASSES: list(self.classes)})
        messages = [Message(content, node, kind) for node, content in contents.items()]
        sent = dict(zip(contents, self.grid.push_messages(messages), strict=True))
        for node in (node for node, number in sent.items() if not number):
            self.fault(node, "Flower did not take the message to it")
        return {number: node for node, number in sent.items() if number}

    def _pull(self, waiting: Mapping[str, int]) -> Iterator[Message]:
        """Answers that are there, a few of them in memory at a time."""
        numbers = list(waiting)
        for start in range(0, len(numbers), AT_ONCE):
            yield from self.grid.pull_messages(numbers[start : start + AT_ONCE])

    def _parsed(
        self, node: int, reply: Message, parse: Callable[[int, RecordDict], Parsed]
    ) -> Parsed | None:
        """The meaning of an answer; None where it has none."""
        if reply.has_error():
            self.fault(node, f"it failed with {reply.error.reason}")
            return None
        try:
            return parse(node, reply.content)
        except InputError as error:
            self.fault(node, str(error))
        except Exception as error:  # Bytes from elsewhere make decoders raise nearly anything.
            self.fault(node, f"its answer cannot be understood ({error!r})")
        return None


def wait_for_nodes(grid: Grid, count: int, seconds: float) -> list[int]:
    """The nodes that are connected, once there are ``count`` of them.

    Raises:
        InputError: there are not so many within ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while len(nodes := sorted(grid.get_node_ids())) < count:
        if time.monotonic() > deadline:
            raise InputError(
                f"{len(nodes)} clients connected within {seconds:g} s and {count} are needed: "
                "start more SuperNodes, or set `clients` lower."
            )
        time.sleep(FIRST_PAUSE)
    return nodes
