"""A Flower grid in one process: every message goes through Flower's own bytes, none over a network.

Nodes may be made to fail as real ones do.
"""

import itertools

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

from pfl.flower.client.app import app
from pfl.flower.server.app import main

RUN = {
    "method": "fedhip", "seed": 0, "clients": 0, "wait-seconds": 0.0, "reply-seconds": 60.0,
    "on-fault": "stop", "fingerprint": "", "state": "", "leave": "",
    "clients-out": "",
}  # fmt: skip


def over_the_wire(message):
    """The message as it arrives: taken apart into Flower's objects and put together again."""
    message.metadata.__dict__["_message_id"] = message.object_id
    contents = {name: one.deflate() for name, one in get_all_nested_objects(message).items()}
    arrived = inflate_object_from_contents(message.object_id, contents)
    arrived.metadata.__dict__["_message_id"] = message.metadata.message_id
    return arrived


class LocalGrid:
    """Nodes that answer at once, but for those with a fault: (message, answer) -> answer or None.

    A fault may raise, too, as a ClientApp does.
    """

    def __init__(self, nodes, run_config, faults=None):
        # Flower's processes know their run; messages are made for it.
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 7, 1, 1
        self.contexts = {
            number: Context(7, number, dict(config), RecordDict(), dict(run_config))
            for number, config in nodes.items()
        }
        self.connected = list(nodes)
        self.faults = faults or {}
        self.asked = []
        self.answers = {}
        self._count = itertools.count()

    def get_node_ids(self):
        return list(self.connected)

    def push_messages(self, messages):
        names = []
        for message in messages:
            arrived = over_the_wire(message)
            name = arrived.metadata.message_id
            self.asked.append((arrived.metadata.dst_node_id, arrived.metadata.message_type))
            answer = self._answer(arrived)
            if answer is not None:
                self.answers[name] = over_the_wire(answer)
            names.append(name)
        return names

    def _answer(self, message):
        node = message.metadata.dst_node_id
        try:
            answer = app(message, self.contexts[node])
            if node in self.faults:
                answer = self.faults[node](message, answer)
        except Exception as error:
            return Message(Error(2, f"{type(error)}:<'{error}'>"), reply_to=message)
        return answer

    def pull_messages(self, message_ids):
        return [self.answers.pop(name) for name in message_ids if name in self.answers]


Grid.register(LocalGrid)  # It has what the servers use of one, and inherits nothing.


def virtual(count):
    """Nodes of a simulation: Flower's random-looking numbers, and those of the clients."""
    return {1000 + 7 * k: {"partition-id": k, "num-partitions": count} for k in range(count)}


def play(config, nodes, faults=None, prepare=None):
    """One run of the ServerApp with these settings; returns the grid."""
    config = RUN | {name.replace("_", "-"): value for name, value in config.items()}
    grid = LocalGrid(nodes, config, faults)
    if prepare is not None:
        prepare(grid)
    main(grid, Context(7, 0, {}, RecordDict(), config))
    return grid


def node(client, count=4):
    """The node of a client among ``count`` virtual ones."""
    return list(virtual(count))[client]
