"""A trained method at the server: :mod:`pfl.training.rounds` with clients that are elsewhere.

:func:`pfl.training.rounds.play_round` hands its requests to a function that has them performed. In
the pipeline it is a pool of processes; here it sends them to the clients. Sampling, dropouts and
averaging are therefore the pipeline's own, and a client's private weights are in no message.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, RecordDict
from flwr.serverapp import Grid
from jaxtyping import Int64

from pfl.artifacts.files import write_text
from pfl.artifacts.json import json_text
from pfl.data.tensors.pixels import PixelSums, normalization
from pfl.errors import InputError
from pfl.evaluation.accuracies import ClientAccuracies, clients_csv, metrics
from pfl.evaluation.reliability.bins import bins_csv, bins_of
from pfl.flower.client.rounds import CLASS_COUNT, METRICS, SENT, SHARED, TOLD
from pfl.flower.messages.hello import Hello
from pfl.flower.messages.kinds import IMAGES, OWN, ROUND
from pfl.flower.messages.moments import ADVICE
from pfl.flower.messages.reliability import reliability_of
from pfl.flower.messages.tensors import check_tensors, tensor_record, tensors_of
from pfl.flower.parameters import RunSettings, Section, to_json
from pfl.flower.server.exchange import Exchange, wait_for_nodes
from pfl.flower.server.greeting import greet
from pfl.flower.server.traffic import traffic_csv
from pfl.flower.trained import Trained, trained
from pfl.training.checkpoint import save_federation
from pfl.training.evaluation import OwnTestRequest, score_clients
from pfl.training.own_test import UNTESTED, OwnTest
from pfl.training.problem import Problem, make_problem
from pfl.training.report import rounds_csv, sent_bytes
from pfl.training.rounds import (
    ClientRound,
    ClientUpdate,
    Federation,
    Member,
    TrainRequest,
    begin,
    play_round,
)
from pfl.training.run import Row, mean_row, round_row

log = logging.getLogger(__name__)


def run_rounds(grid: Grid, settings: RunSettings, sections: Section) -> None:
    """All rounds of one method, then the report.

    Raises:
        InputError: a client failed and the run is to stop then, or nobody is left.
    """
    method = trained(sections, settings.method, settings.seed)
    net = Exchange(grid, settings.reply_seconds, settings.on_fault == "go-on")
    nodes = wait_for_nodes(grid, settings.clients, settings.wait_seconds)
    greeting = RecordDict({TOLD: ConfigRecord({"trained": to_json(asdict(method))})})
    hellos = greet(net, dict.fromkeys(nodes, greeting), IMAGES, settings.fingerprint)
    count = _class_count(hellos, net.classes) if method.counted else np.zeros(0, np.int64)
    common = _common(hellos) | {CLASS_COUNT: count.tolist()}
    problem = _problem(method, hellos, common, len(net.classes))
    away = _Away(net, {h.client: node for node, h in hellos.items()}, problem, method, common)
    federation, history, accuracies = _play(problem, away)
    _report(settings, problem, federation, history, accuracies, net)


def _common(hellos: Mapping[int, Hello]) -> dict[str, Any]:
    """What all clients' images are normalized with, from the sums that they sent."""
    able: list[Mapping[str, Any]] = [h.facts for h in hellos.values() if h.facts["train"]]
    if not able:
        raise InputError("No client has training samples: mend what the faults above tell.")
    channels = max(facts["channels"] for facts in able)
    parts = []
    for facts in able:
        count, first, second = facts["pixels"]
        wide = [torch.tensor(v * (channels // len(v)), dtype=torch.int64) for v in (first, second)]
        parts.append(PixelSums(count, *wide))
    mean, std = normalization(parts)
    return {"channels": channels, "mean": mean.tolist(), "std": std.tolist()}


def _class_count(hellos: Mapping[int, Hello], classes: Sequence[str]) -> Int64[np.ndarray, " d"]:
    """Everybody's training samples of each of the run's classes.

    Raises:
        InputError: a client's counts are not those of so many samples.
    """
    total = np.zeros(len(classes), np.int64)
    for hello in hellos.values():
        facts: Mapping[str, Any] = hello.facts
        count, samples = facts[CLASS_COUNT], facts["train"]
        whole = all(type(number) is int and number >= 0 for number in count)  # True is none
        if not whole or len(count) != len(hello.classes) or sum(count) != samples:
            raise InputError(
                f"Client {hello.client} counts {count} samples of its {len(hello.classes)} classes "
                f"and has {samples}. {ADVICE}."
            )
        np.add.at(total, [classes.index(name) for name in hello.classes], count)
    return total


def _problem(
    method: Trained, hellos: Mapping[int, Hello], common: Mapping[str, Any], classes: int
) -> Problem:
    """The pipeline's problem, of whose data the server knows the clients' sizes alone."""
    greeted = {hello.client: hello for hello in hellos.values()}
    sizes = [
        int(str(greeted[client].facts["train"])) if client in greeted else 0
        for client in range(max(greeted) + 1)
    ]
    recipe: Mapping[str, Any] = next(iter(greeted.values())).recipe
    network = method.make_network(common["channels"], recipe["side"], classes)
    return make_problem(method.training, network, method.make_algorithm, sizes)


def _play(problem: Problem, away: "_Away") -> tuple[Federation, list[Row], ClientAccuracies]:
    """Every round, with tests where the pipeline has them."""
    federation, history = begin(problem), list[Row]()
    rounds = problem.training.rounds
    for number in range(1, rounds + 1):
        federation, summary = play_round(problem, federation, away.run)
        history.append(round_row(summary))
        if problem.training.tests(number):
            accuracies = score_clients(problem, federation, away.run)
            history[-1] |= mean_row(accuracies)
        log.info("Round %d of %d: %d clients.", number, rounds, len(summary.participants))
    return federation, history, accuracies


@dataclass(frozen=True)
class _Away:
    """Clients at their nodes, which are by client; ``common`` is how images are normalized."""

    net: Exchange
    nodes: Mapping[int, int]
    problem: Problem
    method: Trained
    common: Mapping[str, Any]

    def run(self, requests: Sequence[Any], /) -> Iterator[Any]:
        """Have each run of requests of one kind performed by the clients that they are about."""
        ask: dict[type, Callable[[Sequence[ClientRound]], Iterator[Any]]] = {
            TrainRequest: self._train,
            OwnTestRequest: self._test,
        }
        for kind, group in groupby(requests, type):
            yield from ask[kind]([request.place for request in group])

    def _train(self, places: Sequence[ClientRound]) -> Iterator[ClientUpdate]:
        """The updates that arrive and make sense; a client without one counts as not drawn."""
        number = places[0].round
        expected = _shared_sizes(self.problem, number)

        def parse(node: int, content: RecordDict) -> ClientUpdate:
            upload = tensors_of(content.array_records.get(SENT, ArrayRecord()))
            check_tensors(upload, expected)
            terms = {n: float(str(v)) for n, v in content.metric_records[METRICS].items()}
            return ClientUpdate(self.net.names[node], upload, Member(number, {}, {}), terms)

        for _, update in self.net.ask(self._messages(places), ROUND, parse):
            yield update

    def _test(self, places: Sequence[ClientRound]) -> Iterator[OwnTest]:
        """What each client's model achieves, unknown where it does not answer."""

        def parse(node: int, content: RecordDict) -> OwnTest:
            del node  # every way to parse an answer has the same signature
            sent = content.metric_records[METRICS]
            accuracy, validation = (float(str(sent[name])) for name in ("own", "validation"))
            return OwnTest(accuracy, validation, reliability_of(sent))

        tested = dict(self.net.ask(self._messages(places), OWN, parse))
        for place in places:
            yield tested.get(self.nodes[place.client], UNTESTED)

    def _messages(self, places: Sequence[ClientRound]) -> dict[int, RecordDict]:
        """A message a client; the download is the same for all."""
        if not places:
            return {}
        shared = tensor_record(places[0].shared)
        texts = {"trained": to_json(asdict(self.method)), "common": to_json(self.common)}
        requests = {
            place.client: ConfigRecord({"round": place.round, "last": place.member.last, **texts})
            for place in places
        }
        return {
            self.nodes[client]: RecordDict({SHARED: shared, TOLD: request})
            for client, request in requests.items()
        }


def _shared_sizes(problem: Problem, number: int) -> dict[str, tuple[int, torch.dtype]]:
    """Elements and type of each entry that is sent in this round."""
    state, split = problem.model.state_dict(), problem.split(number)
    return {
        name: (int((~mask).sum()), state[name].dtype)
        for name, mask in split.items()
        if not mask.all()
    }


def _report(
    settings: RunSettings, problem: Problem, federation: Federation, history: list[Row],
    accuracies: ClientAccuracies, net: Exchange,
) -> None:  # fmt: skip
    """Write the tables, the numbers, the traffic, and the shared network."""
    folder = settings.report
    sizes = problem.sizes
    facts = {"client": range(len(sizes)), "train": sizes}
    run = {
        "seed": settings.seed,
        "rounds": federation.round,
        "clients": sum(size > 0 for size in sizes),
        "faults": net.faults,
    }
    numbers = metrics({settings.method: (accuracies, sent_bytes(history))}, run)
    write_text(folder / "rounds.csv", rounds_csv(history))
    write_text(folder / "per_client.csv", clients_csv(facts, {settings.method: accuracies}))
    write_text(folder / "metrics.json", json_text(numbers))
    bins = bins_of({settings.method: accuracies.local.reliability})
    write_text(folder / "reliability.csv", bins_csv(bins))
    write_text(folder / "traffic.csv", traffic_csv(net.traffic))
    save_federation(folder / "shared.safetensors", federation, {"method": settings.method})
