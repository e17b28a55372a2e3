"""Testing after a round: each client's own model, and the ensemble of all of them.

The tests of CD2-pFed [arXiv 2204.03880, Section 4.1]:

- local test: each client's model on its own test samples;
- new test: the ensemble of all clients' models on everybody's test samples; beside it stands the
  global test, each client's model on these samples;
- external test: the same ensemble on samples of a group that took no part
  (:mod:`pfl.data.samples.external_group`), and beside it each client's model on these.

The paper does not say how the ensemble is formed. The mean of the models' probabilities, argmax of
Σ_i p_i, comes first; the mean of log-probabilities, argmax of Σ_i log p_i, the majority of votes
(ties to the lower class number), and one model with the average of the weights, by |D_i|, are
reported too.
Clients without training samples have no model of their own and are left out.

Where a method's personal models are for samples like the client's own (``for_own_samples``), new,
global and external test are of the merged models, without what makes them personal.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from torch import nn

from pfl.data.tensors.client_data import ClientData
from pfl.evaluation.accuracies import Accuracies, ClientAccuracies
from pfl.evaluation.metrics import MEAN_LOG_PROBABILITY, MEAN_PROBABILITY, VOTE, WEIGHT_AVERAGE
from pfl.evaluation.reliability.sums import joined, log_probabilities
from pfl.runtime.workers import Run
from pfl.training.own_test import UNTESTED, Logits, OwnTest, own_test, predict
from pfl.training.problem import LocalProblem, Problem
from pfl.training.rounds import ClientRound, Federation, model_state
from pfl.training.split import Packed, State, average, nothing_private, upload
from pfl.training.tested import places_after


def score_clients(
    problem: Problem, federation: Federation, run: Run, trained: Sequence[ClientRound] = ()
) -> ClientAccuracies:
    """Test each client's model on its own samples only: as many predictions as samples.

    ``trained`` clients are tested as they are there, see :mod:`pfl.training.tested`.
    """
    able = able_clients(problem)
    requests = [OwnTestRequest(place) for place in places_after(federation, able, trained)]
    return _own_tests(problem, dict(zip(able, run(requests), strict=True)))


def _own_tests(problem: Problem, tested: Mapping[int, OwnTest]) -> ClientAccuracies:
    """The tests on each client's own samples; NaN for clients that are not ``tested``.

    How many validation samples clients have is unknown if they are away.
    """
    every = [tested.get(client, UNTESTED) for client in range(len(problem.sizes))]
    own, validation = (
        np.array([getattr(one, name) for one in every]) for name in ("accuracy", "validation")
    )
    sums = joined([one.reliability for one in every])
    parts = problem.tests.validation if isinstance(problem, LocalProblem) else None
    held_back = None if parts is None else np.array([len(part) for part in parts])
    validated = None if np.isnan(validation).all() else Accuracies(validation, held_back)
    return ClientAccuracies(Accuracies(own, sums.samples, reliability=sums), validation=validated)


def score_all(
    problem: LocalProblem, federation: Federation, run: Run, trained: Sequence[ClientRound] = ()
) -> ClientAccuracies:
    """Test each client's model on its own and on all samples, and the ensembles of all models.

    Each model is made once and sees each sample once, and those of its users once more. Where all
    clients use the same model, so does that one for all of them.
    """
    groups = _users(problem, federation, bool(trained))
    first = places_after(federation, [users[0] for users in groups], trained)
    requests = [FullTestRequest(*pair) for pair in zip(first, map(tuple, groups), strict=True)]
    tallies = [Tally(data.label.cpu().numpy()) for data in _sets(problem)]
    common = np.full((len(tallies), len(problem.sizes)), np.nan)
    alone: dict[int, OwnTest] = {}
    everything = nothing_private(federation.shared)

    def states() -> Iterator[Packed]:
        for users, tested in zip(groups, run(requests), strict=True):
            for row, (tally, logits) in enumerate(zip(tallies, tested.logits, strict=True)):
                tally.add(logits)
                common[row, users] = tally.single[-1]
            alone.update(zip(users, tested.own, strict=True))
            yield upload(tested.state, everything)

    weights = [float(sum(problem.sizes[client] for client in users)) for users in groups]
    mean = average(federation.shared, states(), weights, everything)
    (averaged,) = run([StateTestRequest(mean)])
    on_all = [
        Accuracies(values, np.full(len(values), len(tally.label)), tally.score(logits))
        for values, tally, logits in zip(common, tallies, averaged, strict=True)
    ]
    own_only = problem.algorithm.for_own_samples
    tested = _own_tests(problem, alone)
    if own_only:
        tested = score_clients(problem, federation, run, trained)
    external = on_all[1] if len(on_all) > 1 else None
    return ClientAccuracies.of(tested.local, on_all[0], external, tested.validation)


def _users(problem: Problem, federation: Federation, apart: bool) -> list[list[int]]:
    """The clients that use each model on all samples: the same one, or everybody an own one.

    ``apart`` says that they have own ones, whatever the method.
    """
    able, algorithm = able_clients(problem), problem.algorithm
    personal = algorithm.personalize is not None and not algorithm.for_own_samples
    if apart or personal or any(member.private for member in federation.members):
        return [[client] for client in able]
    return [able]


def able_clients(problem: Problem) -> list[int]:
    """Clients that have training samples, hence a model."""
    return [client for client, size in enumerate(problem.sizes) if size]


class Tally:
    """Sums over models, from which each kind of ensemble follows; models count the same."""

    def __init__(self, label: Int[np.ndarray, " n"]) -> None:
        self.label = label
        self.single: list[float] = []
        self.probability = self.log_probability = self.votes = np.zeros(1)

    def add(self, logits: Logits) -> None:
        """Count one more model."""
        wide = logits.astype(np.float64)
        log_probability = log_probabilities(wide)
        self.log_probability = self.log_probability + log_probability
        self.probability = self.probability + np.exp(log_probability)
        self.votes = self.votes + np.eye(logits.shape[1], dtype=np.int64)[wide.argmax(1)]
        self.single.append(self._accuracy(wide))

    def score(self, averaged: Logits) -> dict[str, float]:
        """Accuracy of each ensemble; ``averaged`` are the scores of the averaged weights."""
        return {
            MEAN_PROBABILITY: self._accuracy(self.probability),
            MEAN_LOG_PROBABILITY: self._accuracy(self.log_probability),
            VOTE: self._accuracy(self.votes),
            WEIGHT_AVERAGE: self._accuracy(averaged),
        }

    def _accuracy(self, scores: np.ndarray) -> float:
        return float(np.mean(scores.argmax(1) == self.label))


def model_in_use(problem: LocalProblem, place: ClientRound) -> nn.Module:
    """The model that a client uses after the round."""
    model = place.model(problem)
    if problem.algorithm.personalize is not None:
        problem.algorithm.personalize(model, place.context(problem, "personal"))
    return model


def model_for_all(problem: LocalProblem, place: ClientRound) -> nn.Module:
    """The model that a client has for others' samples after the round."""
    own_only = problem.algorithm.for_own_samples
    return place.model(problem) if own_only else model_in_use(problem, place)


@dataclass(frozen=True)
class OwnTestRequest:
    """A test of a client's model on its own test and validation samples."""

    place: ClientRound

    def perform(self, problem: LocalProblem) -> OwnTest:
        """What it achieves on either."""
        return own_test(problem, model_in_use(problem, self.place), self.place.client)


@dataclass(frozen=True)
class ModelTest:
    """What a model achieves, and the model.

    Attributes:
        logits: class scores on each set of samples.
        own: on the own samples of each user.
        state: the model.
    """

    logits: tuple[np.ndarray, ...]
    own: tuple[OwnTest, ...]
    state: State


@dataclass(frozen=True)
class FullTestRequest:
    """A test of a client's model, which all of ``users`` have, on everybody's samples."""

    place: ClientRound
    users: tuple[int, ...]

    def perform(self, problem: LocalProblem) -> ModelTest:
        """Class scores, and what it achieves on the users' own samples."""
        model = model_for_all(problem, self.place)
        own = tuple(own_test(problem, model, user) for user in self.users)
        return ModelTest(_logits(problem, model), own, model_state(model))


@dataclass(frozen=True)
class StateTestRequest:
    """A test of the network with these weights on everybody's samples."""

    state: State

    def perform(self, problem: LocalProblem) -> tuple[Logits, ...]:
        """Class scores on each set of samples."""
        model = deepcopy(problem.model)
        model.load_state_dict(self.state)
        return _logits(problem, model)


def _sets(problem: LocalProblem) -> list[ClientData]:
    """The samples that ensembles are tested with."""
    tests = problem.tests
    return [tests.pooled] if tests.external is None else [tests.pooled, tests.external]


def _logits(problem: LocalProblem, model: nn.Module) -> tuple[Logits, ...]:
    return tuple(predict(model, data) for data in _sets(problem))
