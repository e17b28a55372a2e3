"""A secure sum step by step, for tests that look between the steps or meddle with them."""

from dataclasses import dataclass, field

import numpy as np

from pfl.privacy.secure_aggregation import client, server


@dataclass
class Steps:
    """The first three steps among all clients, with what each party has after them."""

    vectors: list
    neighbors: int | None = None
    seed: int = 0
    messages: list = field(default_factory=list)

    def __post_init__(self):
        rng = np.random.default_rng(self.seed)
        self.entropy = rng.bytes
        self.secrets = [client.draw_secrets(u, rng.bytes) for u in range(len(self.vectors))]
        adverts = [client.advertise(one) for one in self.secrets]
        self.introduced, self.introductions = server.introduce(adverts, self.neighbors, rng)
        pairs = [client.share(s, self.introductions[s.client], rng.bytes) for s in self.secrets]
        self.sharing = [state for state, _ in pairs]
        self.sealed = [letters for _, letters in pairs]
        self.delivered, self.letters = server.deliver(self.introduced, self.sealed)
        pairs = [
            client.mask(self.sharing[u], self.letters[u], vector)
            for u, vector in enumerate(self.vectors)
        ]
        self.waiting = [state for state, _ in pairs]
        self.masked = [sent for _, sent in pairs]
        self.messages += [*adverts, *self.sealed, *self.masked]

    def collect(self, lost=()):
        """The server's state and questions when some clients' masked vectors do not arrive."""
        return server.collect(self.delivered, [m for m in self.masked if m.client not in lost])

    def answers(self, questions):
        """What the clients that are asked answer."""
        return [client.reveal(self.waiting[u], asked)[1] for u, asked in questions.items()]


def numbers(masked):
    """A masked message's vector."""
    return np.frombuffer(masked.vector, "<u8")


def random_vectors(clients, length, seed=0):
    """Vectors of 64-bit numbers as moments have: small ones, of both signs."""
    rng = np.random.default_rng(seed)
    return list(rng.integers(-(2**40), 2**40, (clients, length)).view(np.uint64))
