"""Federated rounds over explicit state: download, local training, upload, average.

One round t = 1 … T, with shared weights w_0, private weights w_i of client i and its data D_i:

1. each client that takes part starts from w_0 where the round's split shares, from its own w_i
   where it keeps; an element that turns private in this round starts from the value downloaded;
2. it trains on its own data;
3. it sends the shared elements, and the server sets w_0 = Σ a_i w_{0,i}, a_i = |D_i| / Σ_j |D_j|,
   over those that took part [McMahan et al. 2017, Algorithm 1; arXiv 2204.03880, Algorithm 1].

A method is an :class:`Algorithm`: a split for every round and a way to train. What a round changes
is a :class:`Federation`, and :func:`play_round` is a function from one to the next.
"""

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from jaxtyping import Shaped
from safetensors.torch import load, save
from torch import Tensor, nn

from pfl.data.tensors.client_data import ClientData, TestData
from pfl.errors import InputError
from pfl.runtime.rng import stream
from pfl.runtime.rounding import portion
from pfl.runtime.workers import Run
from pfl.training.algorithm import Algorithm, LocalTraining, RoundContext, Training
from pfl.training.split import (
    Packed,
    Split,
    State,
    average,
    check_split,
    keep,
    merge,
    nothing_private,
    packed_bytes,
    upload,
)

__all__ = [
    "Algorithm",
    "Answer",
    "Federation",
    "Job",
    "LocalTraining",
    "Member",
    "Problem",
    "RoundContext",
    "RoundSummary",
    "Training",
    "begin",
    "client_context",
    "client_model",
    "client_stream",
    "jobs_for",
    "model_state",
    "participants",
    "play_round",
    "state_bytes",
    "train_client",
]


@dataclass(frozen=True)
class Problem:
    """Everything that stays the same over all rounds.

    Attributes:
        algorithm: the method.
        training: its settings.
        model: the network with its initial weights; jobs use copies.
        clients: training data of each client; a client without any never takes part.
        tests: what the clients' models are tested with.
        device: where the network and all data are.
    """

    algorithm: Algorithm
    training: Training
    model: nn.Module
    clients: Sequence[ClientData]
    tests: TestData
    device: torch.device

    def split(self, number: int) -> Split:
        """What is private in round ``number``; before the first round, nothing is."""
        if number == 0:
            return nothing_private(self.model.state_dict())
        return self.algorithm.split(number, self.training.rounds)

    def context(self, number: int, memory: Mapping[str, Tensor]) -> RoundContext:
        """What local training of round ``number`` gets to know."""
        return RoundContext(
            training=self.training,
            round=number,
            split={name: mask.to(self.device) for name, mask in self.split(number).items()},
            memory={name: value.to(self.device) for name, value in memory.items()},
        )


@dataclass(frozen=True)
class Member:
    """What one client keeps between rounds.

    Attributes:
        last: the last round it took part in, 0 if none yet.
        private: its private elements, packed by the split of that round.
        memory: see :class:`RoundContext`.
    """

    last: int
    private: Packed
    memory: Mapping[str, Shaped[Tensor, "..."]]


@dataclass(frozen=True)
class Federation:
    """All that changes from round to round.

    Attributes:
        round: how many are finished.
        shared: the server's state; of elements that are private by now, the last value it had.
        members: one a client.
    """

    round: int
    shared: State
    members: tuple[Member, ...]


@dataclass(frozen=True)
class RoundSummary:
    """What is told of one round.

    Attributes:
        round: its number t.
        participants: clients whose uploads arrived.
        terms: loss terms, means over these clients' samples.
        upload_bytes: what they sent, all together.
    """

    round: int
    participants: tuple[int, ...]
    terms: Mapping[str, float]
    upload_bytes: int


@dataclass(frozen=True)
class Job:
    """A client's part in a round, as bytes that cross from one process to another."""

    client: int
    round: int
    last: int
    shared: bytes
    private: bytes
    memory: bytes


@dataclass(frozen=True)
class Answer:
    """What comes back from a :class:`Job`."""

    client: int
    upload: bytes
    private: bytes
    memory: bytes
    terms: dict[str, float]


def begin(problem: Problem) -> Federation:
    """Before the first round: everybody has the network's initial weights."""
    check_split(problem.model.state_dict(), problem.split(1))
    shared = {name: value.cpu().clone() for name, value in problem.model.state_dict().items()}
    return Federation(0, shared, tuple(Member(0, {}, {}) for _ in problem.clients))


def play_round(
    problem: Problem, federation: Federation, run: Run
) -> tuple[Federation, RoundSummary]:
    """The next round.

    Raises:
        InputError: a client's loss or weights are no longer finite.
    """
    number = federation.round + 1
    chosen = participants(problem.training, [len(data) for data in problem.clients], number)
    jobs = jobs_for(federation, chosen, number)
    longest_first = sorted(jobs, key=lambda job: -len(problem.clients[job.client]))
    answers = sorted(run(train_client, longest_first), key=lambda answer: answer.client)
    uploads = [load(answer.upload) for answer in answers]
    weights = [float(len(problem.clients[answer.client])) for answer in answers]
    members = list(federation.members)
    for answer in answers:
        members[answer.client] = Member(number, load(answer.private), load(answer.memory))
    shared = federation.shared
    if answers:
        shared = average(shared, uploads, weights, problem.split(number))
    summary = RoundSummary(
        round=number,
        participants=tuple(answer.client for answer in answers),
        terms=_mean_terms([answer.terms for answer in answers], weights),
        upload_bytes=sum(packed_bytes(sent) for sent in uploads),
    )
    return Federation(number, shared, tuple(members)), summary


def participants(training: Training, sizes: Sequence[int], number: int) -> list[int]:
    """Clients whose uploads arrive in round ``number``, in ascending order; perhaps none.

    ⌈fraction · K⌉ of the K clients that have data are drawn without replacement; then each is lost
    with probability ``client_dropout``, and stays as if it had not been drawn.
    """
    able = [client for client, size in enumerate(sizes) if size > 0]
    generator = stream(training.seed, "participants", number)
    order = torch.randperm(len(able), generator=generator).tolist()
    drawn = order[: max(1, math.ceil(portion(len(able), training.fraction)))]
    lost = torch.rand(len(drawn), generator=generator).tolist()
    kept = (i for i, chance in zip(drawn, lost, strict=True) if chance >= training.client_dropout)
    return sorted(able[i] for i in kept)


def jobs_for(federation: Federation, clients: Sequence[int], number: int) -> list[Job]:
    """What each of the clients needs for round ``number``; the download is the same for all."""
    shared = state_bytes(federation.shared)
    return [
        Job(
            client,
            number,
            member.last,
            shared,
            state_bytes(member.private),
            state_bytes(member.memory),
        )
        for client, member in ((client, federation.members[client]) for client in clients)
    ]


def client_model(problem: Problem, job: Job) -> nn.Module:
    """A network with the client's weights: shared ones from the server, private ones its own."""
    model = deepcopy(problem.model)
    model.load_state_dict(merge(load(job.shared), load(job.private), problem.split(job.last)))
    return model.to(memory_format=torch.channels_last)


def client_context(problem: Problem, job: Job) -> RoundContext:
    """What the client's training may know, with the memory it left in its last round."""
    return problem.context(job.round, load(job.memory))


def client_stream(problem: Problem, job: Job, purpose: str) -> torch.Generator:
    """The client's random numbers in this round for one purpose."""
    return stream(problem.training.seed, purpose, job.round, job.client)


def model_state(model: nn.Module) -> dict[str, Tensor]:
    """A network's parameters and buffers, on the CPU."""
    return {name: value.cpu() for name, value in model.state_dict().items()}


def state_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Tensors by name as bytes; safetensors' ``load`` is the inverse."""
    return save({name: value.contiguous() for name, value in tensors.items()})


def train_client(problem: Problem, job: Job) -> Answer:
    """One client's round, wherever it runs."""
    model, context = client_model(problem, job), client_context(problem, job)
    generator = client_stream(problem, job, "train")
    terms = problem.algorithm.train(model, problem.clients[job.client], context, generator)
    state, split = model_state(model), problem.split(job.round)
    _check_finite(job, terms, state)
    sent, kept = state_bytes(upload(state, split)), state_bytes(keep(state, split))
    memory = state_bytes({name: value.cpu() for name, value in context.memory.items()})
    return Answer(job.client, sent, kept, memory, terms)


def _check_finite(job: Job, terms: Mapping[str, float], state: State) -> None:
    broken = [name for name, value in terms.items() if not math.isfinite(value)]
    if not broken and all(value.isfinite().all() for value in state.values()):
        return
    what = f"the {broken[0]} of" if broken else "a weight of"
    raise InputError(
        f"Training diverged in round {job.round}: {what} client {job.client} is not a finite "
        "number. Lower the learning-rate (or the method's weights of loss terms) and run again; "
        "the state after the round before is kept in .scratch."
    )


def _mean_terms(answers: Sequence[dict[str, float]], weights: Sequence[float]) -> dict[str, float]:
    """Means over clients, weighted by their samples; no terms if nobody took part."""
    total = sum(weights)
    return {
        name: sum(w * terms[name] for w, terms in zip(weights, answers, strict=True)) / total
        for name in (answers[0] if answers else ())
    }
