"""Testing after a round: each client's own model, and the ensemble of all of them.

The tests of CD2-pFed [arXiv 2204.03880, Section 4.1]:

- local test: each client's model on its own test samples;
- new test: the ensemble of all clients' models on everybody's test samples;
- external test: the same ensemble on samples of a group that took no part.

The paper does not say how the ensemble is formed. The mean of the models' probabilities comes
first; the mean of log-probabilities, the majority of votes (ties to the lower class number), and
the average of the weights, by |D_i|, are told too, and the mean accuracy of the single models.
Clients without training samples have no model of their own and are left out.
"""

import math
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float32, Int
from safetensors.torch import load, save
from torch import Tensor, nn

from pfl.rounds import (
    Federation,
    Job,
    Problem,
    client_context,
    client_model,
    client_stream,
    jobs_for,
    model_state,
)
from pfl.split import State
from pfl.training_data import ClientData
from pfl.workers import Run

BATCH_IMAGES = 256

Logits = Float32[np.ndarray, "n d"]


@dataclass(frozen=True)
class EnsembleScore:
    """Accuracy of the ensemble on one set of samples, for each way to form it.

    Attributes:
        mean_probability: argmax of Σ_i p_i.
        mean_log_probability: argmax of Σ_i log p_i.
        vote: the class that most models choose.
        weight_average: one model with the average weights.
        single: mean over the clients of the accuracy of their models.
    """

    mean_probability: float
    mean_log_probability: float
    vote: float
    weight_average: float
    single: float


@dataclass(frozen=True)
class ClientScores:
    """Accuracy of each client's model; NaN where there is no sample or no model.

    Attributes:
        own: on the client's own test samples.
        validation: on what was put aside of its training samples.
    """

    own: Float[np.ndarray, " clients"]
    validation: Float[np.ndarray, " clients"]


@dataclass(frozen=True)
class EnsembleScores:
    """Accuracy on samples that are not a client's own.

    Attributes:
        pooled: each client's model on everybody's test samples; NaN where there is no model.
        new: the ensemble on everybody's test samples.
        external: the ensemble on the samples held out, if any.
    """

    pooled: Float[np.ndarray, " clients"]
    new: EnsembleScore
    external: EnsembleScore | None


def score_clients(problem: Problem, federation: Federation, run: Run) -> ClientScores:
    """Test each client's model on its own samples only: as many predictions as samples."""
    able = able_clients(problem)
    values = np.full((2, len(problem.clients)), np.nan)
    jobs = jobs_for(federation, able, federation.round)
    for client, found in zip(able, run(_own_accuracy, jobs), strict=True):
        values[:, client] = found
    return ClientScores(own=values[0], validation=values[1])


def score_ensembles(problem: Problem, federation: Federation, run: Run) -> EnsembleScores:
    """Test each client's model on all samples, and their ensembles.

    Where all clients use the same model, it is tested once.
    """
    able = able_clients(problem)
    alike = problem.algorithm.personalize is None and not any(
        member.private for member in federation.members
    )
    jobs = jobs_for(federation, able[:1] if alike else able, federation.round)
    weights = [float(len(problem.clients[job.client])) for job in jobs]
    tallies = [Tally(data.label.numpy()) for data in _sets(problem)]
    average = WeightAverage()
    for weight, answer in zip(weights, run(_answer, jobs), strict=True):
        average.add(load(answer.state), weight)
        for tally, logits in zip(tallies, answer.logits, strict=True):
            tally.add(logits)
    (answer,) = run(_answer_of_state, [save(average.state())])
    new, *external = (
        tally.score(logits) for tally, logits in zip(tallies, answer.logits, strict=True)
    )
    pooled = np.full(len(problem.clients), np.nan)
    pooled[able] = tallies[0].single
    return EnsembleScores(pooled, new, external[0] if external else None)


def able_clients(problem: Problem) -> list[int]:
    """Clients that have training samples, hence a model."""
    return [client for client, data in enumerate(problem.clients) if len(data)]


class Tally:
    """Sums over models, from which each kind of ensemble follows; models count the same."""

    def __init__(self, label: Int[np.ndarray, " n"]) -> None:
        self.label = label
        self.single: list[float] = []
        self.probability = self.log_probability = self.votes = np.zeros(1)

    def add(self, logits: Logits) -> None:
        """Count one more model."""
        wide = logits.astype(np.float64)
        log_probability = wide - np.logaddexp.reduce(wide, axis=1, keepdims=True)
        self.log_probability = self.log_probability + log_probability
        self.probability = self.probability + np.exp(log_probability)
        self.votes = self.votes + np.eye(logits.shape[1], dtype=np.int64)[wide.argmax(1)]
        self.single.append(self._accuracy(wide))

    def score(self, averaged: Logits) -> EnsembleScore:
        """Accuracy of each ensemble; ``averaged`` are the scores of the averaged weights."""
        return EnsembleScore(
            mean_probability=self._accuracy(self.probability),
            mean_log_probability=self._accuracy(self.log_probability),
            vote=self._accuracy(self.votes),
            weight_average=self._accuracy(averaged),
            single=float(np.mean(self.single)),
        )

    def _accuracy(self, scores: np.ndarray) -> float:
        return float(np.mean(scores.argmax(1) == self.label))


class WeightAverage:
    """Σ a_i w_i over whole states, a_i ∝ |D_i|, in float64 and rounded once."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}
        self.types: dict[str, torch.dtype] = {}
        self.total = 0.0

    def add(self, state: State, weight: float) -> None:
        """Count one more state."""
        self.total += weight
        self.types = {name: value.dtype for name, value in state.items()}
        for name, value in state.items():
            self.sums[name] = self.sums.get(name, 0) + value.double() * weight

    def state(self) -> dict[str, Tensor]:
        """The average so far."""
        return {name: (self.sums[name] / self.total).to(kind) for name, kind in self.types.items()}


@dataclass(frozen=True)
class _Answer:
    """A model's class scores on each set of samples, and its state."""

    logits: tuple[np.ndarray, ...]
    state: bytes


def _sets(problem: Problem) -> list[ClientData]:
    """The samples that ensembles are tested with."""
    tests = problem.tests
    return [tests.pooled] if tests.external is None else [tests.pooled, tests.external]


def _model_in_use(problem: Problem, job: Job) -> nn.Module:
    """The model that a client uses after the round."""
    model = client_model(problem, job)
    if problem.algorithm.personalize is not None:
        data = problem.clients[job.client].to(problem.device)
        context, generator = client_context(problem, job), client_stream(problem, job, "personal")
        problem.algorithm.personalize(model, data, context, generator)
    return model


def _own_accuracy(problem: Problem, job: Job) -> tuple[float, float]:
    """Accuracy of a client's model on its own test and validation samples."""
    model, tests = _model_in_use(problem, job), problem.tests
    sets = (tests.pooled.take(tests.own[job.client]), tests.validation[job.client])
    own, validation = (
        float(np.mean(predict(model, data.to(problem.device)).argmax(1) == data.label.numpy()))
        if len(data)
        else math.nan
        for data in sets
    )
    return own, validation


def _answer(problem: Problem, job: Job) -> _Answer:
    return _answer_of(problem, _model_in_use(problem, job))


def _answer_of_state(problem: Problem, state: bytes) -> _Answer:
    model = deepcopy(problem.model).to(problem.device)
    model.load_state_dict(load(state))
    return _answer_of(problem, model)


def _answer_of(problem: Problem, model: nn.Module) -> _Answer:
    logits = tuple(predict(model, data.to(problem.device)) for data in _sets(problem))
    contiguous = {name: value.contiguous() for name, value in model_state(model).items()}
    return _Answer(logits, save(contiguous))


def predict(model: nn.Module, data: ClientData) -> Logits:
    """Class scores of all samples, in order."""
    model.eval()
    with torch.inference_mode():
        parts = [model(images).float().cpu() for images, _ in data.in_order(BATCH_IMAGES)]
    return torch.cat(parts).numpy()
