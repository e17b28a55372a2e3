"""The masked sum against the plain sum of the same uploads, in one run: seconds and bytes.

`python -m benchmarks.secure_sum [--features 768 --classes 100 --clients 10 100 1000 --lost 0.05]`

Clients and the server run one after the other in one process. Seconds are those of its processor,
which other programs disturb less; a client's are the mean over clients. A share ``--lost`` of the
clients is lost after it has shared and before it sends its upload, which is what costs the server
most. Bytes are those of the messages, an integer as 8.
"""

import argparse
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.synthetic import STEP, clients_moments
from pfl.fedhip.moments import Moments, moments, total
from pfl.fedhip.uploads import create_uploads
from pfl.privacy.secure_aggregation import client, server
from pfl.privacy.secure_aggregation.messages import Masked
from pfl.privacy.secure_aggregation.vectors import from_vector, to_vector

POOL = 4  # different uploads, dealt to the clients in turn: a thousand do not fit into memory


@dataclass
class Cost:
    """What a masked sum took: seconds of all clients and the server, bytes all clients moved."""

    client_seconds: float = 0.0
    server_seconds: float = 0.0
    sent: int = 0
    received: int = 0
    counting_seconds: float = 0.0
    started: float = field(default_factory=time.process_time)

    def clients(self, steps: Iterable[Any]) -> Iterator[Any]:
        """Yield (state, message) of each client's step; its time is the clients'."""
        iterator = iter(steps)
        while True:
            start = time.process_time()
            made = next(iterator, None)
            self.client_seconds += time.process_time() - start
            if made is None:
                return
            start = time.process_time()
            self.sent += size(made[1])
            self.counting_seconds += time.process_time() - start
            yield made

    def stop(self) -> None:
        """The server's time is what neither the clients nor counting bytes took."""
        others = self.client_seconds + self.counting_seconds
        self.server_seconds = time.process_time() - self.started - others


def size(message: Any) -> int:
    """Bytes of a message."""
    if isinstance(message, bytes):
        return len(message)
    if isinstance(message, int):
        return 8
    if isinstance(message, dict):
        return sum(map(size, itertools.chain.from_iterable(message.items())))
    parts = message if isinstance(message, tuple) else vars(message).values()
    return sum(map(size, parts))


def masked_sum(pool: list[Moments], clients: int, lost: int) -> tuple[np.ndarray, Cost, int]:
    """The sum of all but the last ``lost`` clients, what it cost, and the number of neighbors."""
    rng, cost = np.random.default_rng(0), Cost()
    numbers = range(clients)
    secrets = [client.draw_secrets(u, os.urandom) for u in numbers]
    adverts = [m for _, m in cost.clients((s, client.advertise(s)) for s in secrets)]
    introduced, introductions = server.introduce(adverts, None, rng)
    sharing = list(
        cost.clients(client.share(s, introductions[s.client], os.urandom) for s in secrets)
    )
    delivered, letters = server.deliver(introduced, (message for _, message in sharing))
    waiting = []

    def upload(u: int) -> tuple[client.Waiting, Masked]:
        return client.mask(sharing[u][0], letters[u], to_vector(pool[u % len(pool)]))

    def uploads() -> Iterator[Masked]:
        for state, message in cost.clients(map(upload, numbers[: clients - lost])):
            waiting.append(state)
            yield message

    collected, questions = server.collect(delivered, uploads())
    answers = cost.clients(client.reveal(w, questions[u]) for u, w in enumerate(waiting))
    result = server.finish(collected, (message for _, message in answers))
    cost.stop()
    for to_clients in (introductions, letters, questions):
        cost.received += sum(map(size, to_clients.values()))
    return result, cost, len(introduced.neighbors[0])


def mean_seconds(work: Callable[[], object], repeats: int) -> float:
    """Seconds of one of so many runs: the processor's clock ticks too slowly for a single one."""
    start = time.process_time()
    for _ in range(repeats):
        work()
    return (time.process_time() - start) / repeats


def plain_sum(pool: list[Moments], clients: int) -> tuple[Moments, float]:
    """The plain sum and its seconds."""
    zero = pool[0] - pool[0]

    def work() -> Moments:
        return total((pool[u % len(pool)] for u in range(clients)), zero)

    return work(), mean_seconds(work, 1 + 2000 // clients)


def gram_seconds(samples: int, m: int, d: int) -> float:
    """What a client takes to make its moments, to compare with masking them."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2**14, (samples, m)).astype(np.int16)
    labels = np.sort(rng.integers(0, d, samples))
    return mean_seconds(lambda: moments(rows, labels, d, STEP), 50)


def plain_bytes(pool: list[Moments]) -> float:
    """Bytes of one client in uploads.h5."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "uploads.h5"
        shape = (len(pool), pool[0].features, len(pool[0].count))
        with create_uploads(path, *shape, STEP) as file:
            for u, sent in enumerate(pool):
                file.add(u, sent)
        return path.stat().st_size / len(pool)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=768)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--samples", type=int, default=500, help="of each client")
    parser.add_argument("--lost", type=float, default=0.0, help="share of the clients")
    a = parser.parse_args()
    pool = clients_moments(a.samples, a.features, a.classes, POOL)
    plain = plain_bytes(pool)
    made = gram_seconds(a.samples, a.features, a.classes)
    print(f"m={a.features} d={a.classes} N_k={a.samples} lost={a.lost:g}; times: of the plain sum")
    print(f"A client makes its moments in {made:.4f} s.")
    print(f"{'':>22}{'seconds':>22}{'server':>14}{'MB of a client':>24}{'times':>7}")
    print(f"{'K':>6}{'neighbors':>10}{'plain':>9}{'server':>9}{'client':>10}{'times':>8}", end="")
    print(f"{'plain':>11}{'sent':>7}{'received':>10}{'plain':>9}")
    for clients in a.clients:
        lost = int(a.lost * clients)
        result, cost, neighbors = masked_sum(pool, clients, lost)
        summed, seconds = plain_sum(pool, clients - lost)
        if from_vector(result, pool[0]) != summed:
            raise SystemExit("The sums differ.")
        mean, sent, received = (
            x / clients for x in (cost.client_seconds, cost.sent / 1e6, cost.received / 1e6)
        )
        print(f"{clients:6}{neighbors:10}{seconds:9.3f}{cost.server_seconds:9.3f}", end="")
        print(f"{mean:10.4f}{cost.server_seconds / seconds:8.1f}{plain / 1e6:11.2f}", end="")
        print(f"{sent:7.2f}{received:10.3f}{sent * 1e6 / plain:9.2f}", flush=True)


if __name__ == "__main__":
    main()
