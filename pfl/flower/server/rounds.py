"""A trained method at the server: :mod:`pfl.training.rounds` with clients that are elsewhere.

:func:`pfl.training.rounds.play_round` hands its jobs to a function that has them done. In the
pipeline it is a pool of processes; here it sends them to the clients. Sampling, dropouts and
averaging are therefore the pipeline's own, and a client's private weights are in no job and no
answer.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, RecordDict
from flwr.serverapp import Grid
from safetensors.torch import load

from pfl.artifacts.files import write_text
from pfl.artifacts.json import json_text
from pfl.data.tensors.pixels import PixelSums, normalization
from pfl.errors import InputError
from pfl.evaluation.accuracies import ClientAccuracies, clients_csv, metrics
from pfl.flower.client.rounds import METRICS, SENT, SHARED, TOLD
from pfl.flower.messages.hello import Hello
from pfl.flower.messages.kinds import IMAGES, OWN, ROUND
from pfl.flower.messages.tensors import check_tensors, tensor_record, tensors_of
from pfl.flower.parameters import RunSettings, Section, to_json
from pfl.flower.server.exchange import Exchange, wait_for_nodes
from pfl.flower.server.greeting import greet
from pfl.flower.server.traffic import traffic_csv
from pfl.flower.trained import Shape, Trained, no_tests, problem_of, sizes_only, trained
from pfl.training.checkpoint import save_federation
from pfl.training.evaluation import own_accuracy, score_clients
from pfl.training.report import rounds_csv, sent_bytes
from pfl.training.rounds import (
    Answer,
    Federation,
    Job,
    Problem,
    begin,
    play_round,
    state_bytes,
    train_client,
)
from pfl.training.run import Row, mean_row, round_row

log = logging.getLogger(__name__)
NOTHING = state_bytes({})


def run_rounds(grid: Grid, settings: RunSettings, sections: Section) -> None:
    """All rounds of one method, then the report.

    Raises:
        InputError: a client failed and the run is to stop then, or nobody is left.
    """
    told = trained(sections, settings.method, settings.seed)
    net = Exchange(grid, settings.reply_seconds, settings.on_fault == "go-on")
    nodes = wait_for_nodes(grid, settings.clients, settings.wait_seconds)
    asked = RecordDict({TOLD: ConfigRecord({"trained": to_json(vars(told))})})
    hellos = greet(net, dict.fromkeys(nodes, asked), IMAGES, settings.fingerprint)
    away = _Away(net, {h.client: node for node, h in hellos.items()}, told, _common(hellos))
    problem = _problem(told, hellos, away.common, len(net.classes))
    federation, history, accuracies = _play(problem, away, told)
    _report(settings, problem, federation, history, accuracies, net)


def _common(hellos: Mapping[int, Hello]) -> dict[str, Any]:
    """What all clients' images are normalized with, from the sums that they sent."""
    facts: list[Mapping[str, Any]] = [h.facts for h in hellos.values() if h.facts["train"]]
    if not facts:
        raise InputError("No client has training samples: mend what the faults above tell.")
    channels = max(told["channels"] for told in facts)
    parts = []
    for told in facts:
        count, first, second = told["pixels"]
        wide = [torch.tensor(v * (channels // len(v)), dtype=torch.int64) for v in (first, second)]
        parts.append(PixelSums(count, *wide))
    mean, std = normalization(parts)
    return {"channels": channels, "mean": mean.tolist(), "std": std.tolist()}


def _problem(
    told: Trained, hellos: Mapping[int, Hello], common: Mapping[str, Any], classes: int
) -> Problem:
    """The pipeline's problem, of whose data the server knows the clients' sizes alone."""
    facts = {h.client: h for h in hellos.values()}
    sizes = [int(str(facts[k].facts["train"])) if k in facts else 0 for k in range(max(facts) + 1)]
    recipe: Mapping[str, Any] = next(iter(facts.values())).recipe
    shape = Shape(common["channels"], recipe["side"], classes)
    return problem_of(told, shape, sizes_only(sizes), no_tests(), "cpu")


def _play(
    problem: Problem, away: "_Away", told: Trained
) -> tuple[Federation, list[Row], ClientAccuracies]:
    """Every round, with tests where the pipeline has them."""
    federation, history = begin(problem), list[Row]()
    rounds, every = problem.training.rounds, told.rounds["evaluate-every"]
    run = away.runner(problem)
    for number in range(1, rounds + 1):
        federation, summary = play_round(problem, federation, run)
        history.append(round_row(summary))
        if number % every == 0 or number == rounds:
            accuracies = score_clients(problem, federation, run)
            history[-1] |= mean_row(accuracies)
        log.info("Round %d of %d: %d clients.", number, rounds, len(summary.participants))
    return federation, history, accuracies


@dataclass(frozen=True)
class _Away:
    """Clients at their nodes.

    Attributes:
        net: messages.
        nodes: by client.
        told: the method.
        common: how images are normalized.
    """

    net: Exchange
    nodes: Mapping[int, int]
    told: Trained
    common: Mapping[str, Any]

    def runner(
        self, problem: Problem
    ) -> Callable[[Callable[[Any, Any], Any], Sequence[Any]], Iterator[Any]]:
        """Has jobs done by the clients they are of; what has to be done tells the message type."""

        def run(function: Callable[[Any, Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
            if function is train_client:
                return self._train(problem, jobs)
            if function is own_accuracy:
                return self._test(jobs)
            raise NotImplementedError(f"{function.__name__} cannot be done by sites.")

        return run

    def _train(self, problem: Problem, jobs: Sequence[Job]) -> Iterator[Answer]:
        """The answers that arrive and make sense; a client without one counts as not drawn."""
        expected = _shared_sizes(problem, jobs[0].round) if jobs else {}

        def parse(node: int, content: RecordDict) -> Answer:
            sent = tensors_of(content.array_records.get(SENT, ArrayRecord()))
            check_tensors(sent, expected)
            terms = {n: float(str(v)) for n, v in content.metric_records[METRICS].items()}
            client = self.net.names[node]
            return Answer(client, state_bytes(sent), NOTHING, NOTHING, terms)

        for _, answer in self.net.ask(self._requests(jobs), ROUND, parse):
            yield answer

    def _test(self, jobs: Sequence[Job]) -> Iterator[tuple[float, float]]:
        """Each client's accuracy, unknown where it does not answer."""

        def parse(node: int, content: RecordDict) -> tuple[float, float]:
            told = content.metric_records[METRICS]
            return float(str(told["own"])), float(str(told["validation"]))

        found = dict(self.net.ask(self._requests(jobs), OWN, parse))
        for job in jobs:
            yield found.get(self.nodes[job.client], (nan, nan))

    def _requests(self, jobs: Sequence[Job]) -> dict[int, RecordDict]:
        """A message a job; the download is the same for all."""
        if not jobs:
            return {}
        shared = tensor_record(load(jobs[0].shared))
        texts = {"trained": to_json(vars(self.told)), "common": to_json(self.common)}
        return {
            self.nodes[job.client]: RecordDict(
                {
                    SHARED: shared,
                    TOLD: ConfigRecord({"round": job.round, "last": job.last, **texts}),
                }
            )
            for job in jobs
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
    sizes = [len(data) for data in problem.clients]
    methods = {settings.method: accuracies}
    facts = {"client": range(len(sizes)), "train": sizes}
    run = {
        "seed": settings.seed,
        "rounds": federation.round,
        "clients": sum(size > 0 for size in sizes),
        "faults": net.faults,
    }
    told = metrics({settings.method: (accuracies, sent_bytes(history))}, run)
    write_text(folder / "rounds.csv", rounds_csv(history))
    write_text(folder / "per_client.csv", clients_csv(facts, methods))
    write_text(folder / "metrics.json", json_text(told))
    write_text(folder / "traffic.csv", traffic_csv(net.traffic))
    save_federation(folder / "shared.safetensors", federation, {"method": settings.method})
