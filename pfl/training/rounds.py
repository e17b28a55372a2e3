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
from dataclasses import dataclass, field

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from pfl.errors import InputError
from pfl.runtime.rng import stream
from pfl.runtime.rounding import portion
from pfl.runtime.workers import Run
from pfl.training.algorithm import RoundContext
from pfl.training.problem import LocalProblem, Problem
from pfl.training.settings import Training
from pfl.training.split import (
    Packed,
    State,
    average,
    check_split,
    keep,
    merge,
    packed_bytes,
    upload,
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
class ClientRound:
    """A client in a round: what its model follows from, besides the problem.

    Attributes:
        client: its number.
        round: t.
        shared: the download.
        member: what the client has kept.
    """

    client: int
    round: int
    shared: State
    member: Member

    def model(self, problem: LocalProblem) -> nn.Module:
        """A network with the client's weights: shared ones of the server, private ones its own."""
        split, model = problem.split(self.member.last), deepcopy(problem.model)
        model.load_state_dict(merge(self.shared, self.member.private, split))
        return model.to(memory_format=torch.channels_last)

    def context(self, problem: LocalProblem, purpose: str) -> RoundContext:
        """What training works with: the memory of the last round, random numbers for a purpose."""
        generator = stream(problem.training.seed, purpose, self.round, self.client)
        return problem.context(self.client, self.round, self.member.memory, generator)


@dataclass(frozen=True)
class ClientUpdate:
    """What a client's training gives.

    Attributes:
        client: its number.
        upload: what is sent to the server.
        member: what the client keeps.
        terms: loss terms.
    """

    client: int
    upload: Packed
    member: Member
    terms: dict[str, float]


@dataclass(frozen=True)
class RoundSummary:
    """What is told of one round.

    Attributes:
        round: its number t.
        participants: clients whose uploads arrived.
        terms: loss terms, means over these clients' samples.
        upload_bytes: what they sent, all together; in the first round with what clients told.
        updates: what these clients' training gave.
    """

    round: int
    participants: tuple[int, ...]
    terms: Mapping[str, float]
    upload_bytes: int
    updates: tuple[ClientUpdate, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class TrainRequest:
    """A client's training in one round, wherever it runs."""

    place: ClientRound

    def perform(self, problem: LocalProblem) -> ClientUpdate:
        """Train, and part what is sent from what is kept.

        Raises:
            InputError: the loss or a weight is no longer finite.
        """
        place = self.place
        model, context = place.model(problem), place.context(problem, "train")
        terms = problem.algorithm.train(model, context)
        state, split = model_state(model), problem.split(place.round)
        _check_finite(problem.training, place, terms, state)
        memory = {name: value.cpu().contiguous() for name, value in context.memory.items()}
        kept = Member(place.round, keep(state, split), memory)
        return ClientUpdate(place.client, upload(state, split), kept, terms)


def begin(problem: Problem) -> Federation:
    """Before the first round: everybody has the network's initial weights."""
    check_split(problem.model.state_dict(), problem.split(1))
    shared = {name: value.cpu().clone() for name, value in problem.model.state_dict().items()}
    return Federation(0, shared, tuple(Member(0, {}, {}) for _ in problem.sizes))


def play_round(
    problem: Problem, federation: Federation, run: Run
) -> tuple[Federation, RoundSummary]:
    """The next round.

    Raises:
        InputError: a client's loss or weights are no longer finite.
    """
    number = federation.round + 1
    chosen = participants(problem.training, problem.sizes, number)
    longest_first = sorted(chosen, key=lambda client: -problem.sizes[client])
    requests = [TrainRequest(place) for place in places(federation, longest_first, number)]
    updates = sorted(run(requests), key=lambda update: update.client)
    weights = [float(problem.sizes[update.client]) for update in updates]
    members, shared = list(federation.members), federation.shared
    for update in updates:
        members[update.client] = update.member
    uploads = [update.upload for update in updates]
    if updates:
        shared = average(shared, uploads, weights, problem.split(number))
    summary = RoundSummary(
        round=number,
        participants=tuple(update.client for update in updates),
        terms=_mean_terms([update.terms for update in updates], weights),
        upload_bytes=sum(map(packed_bytes, uploads)) + problem.told_bytes(number),
        updates=tuple(updates),
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


def places(federation: Federation, clients: Sequence[int], number: int) -> list[ClientRound]:
    """The clients in round ``number``; the download is the same for all."""
    members = federation.members
    return [ClientRound(k, number, federation.shared, members[k]) for k in clients]


def model_state(model: nn.Module) -> dict[str, Tensor]:
    """A network's parameters and buffers, on the CPU."""
    return {name: value.cpu() for name, value in model.state_dict().items()}


def _check_finite(
    training: Training, place: ClientRound, terms: Mapping[str, float], state: State
) -> None:
    broken = [name for name, value in terms.items() if not math.isfinite(value)]
    if not broken and all(value.isfinite().all() for value in state.values()):
        return
    what = f"the {broken[0]} of" if broken else "a weight of"
    raise InputError(
        f"Training diverged in round {place.round}: {what} client {place.client} is not a finite "
        f"number. Lower {training.key('learning-rate')} (or the method's weights of loss terms) "
        "and run again; the state after the round before is kept in .scratch."
    )


def _mean_terms(of: Sequence[dict[str, float]], weights: Sequence[float]) -> dict[str, float]:
    """Means over clients, weighted by their samples; no terms if nobody took part."""
    total = sum(weights)
    return {
        name: sum(w * terms[name] for w, terms in zip(weights, of, strict=True)) / total
        for name in (of[0] if of else ())
    }
