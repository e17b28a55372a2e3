"""Other ways to answer on everybody's samples that the new test of CD2-pFed may mean.

- highest confidence: for each image the answer of the client whose model gives it the largest
  probability;
- shared part: ỹ^G alone, the sub-network g(w_0) that all clients have in common.
"""

import numpy as np
import torch
from torch import nn

from pfl.evaluation.reliability.sums import log_probabilities
from pfl.training.evaluation import able_clients, model_for_all
from pfl.training.methods.cd2pfed.decoupled import decouple
from pfl.training.methods.cd2pfed.tracing import trace
from pfl.training.own_test import BATCH_IMAGES, Logits, predict
from pfl.training.problem import LocalProblem
from pfl.training.rounds import Federation, places


class MostConfident:
    """For each sample the answer with the largest probability so far; ties keep the first."""

    def __init__(self, samples: int) -> None:
        self.confidence, self.answer = np.full(samples, -np.inf), np.zeros(samples, np.int64)

    def add(self, logits: Logits) -> None:
        """Count one more model."""
        told = log_probabilities(logits.astype(np.float64))
        surer = told.max(1) > self.confidence
        self.confidence = np.where(surer, told.max(1), self.confidence)
        self.answer = np.where(surer, told.argmax(1), self.answer)


def highest_confidence(problem: LocalProblem, federation: Federation) -> float:
    """Accuracy on everybody's test samples of the most confident client's answers."""
    pooled = problem.tests.pooled
    tally = MostConfident(len(pooled))
    for place in places(federation, able_clients(problem), federation.round):
        tally.add(predict(model_for_all(problem, place), pooled))
    return float((tally.answer == pooled.label.cpu().numpy()).mean())


def shared_part(problem: LocalProblem, federation: Federation, ratio: float) -> float:
    """Accuracy on the same samples of g(w_0) at the private share of the last round."""
    if ratio in (0, 1):
        return float("nan")  # there are no two parts
    pooled = problem.tests.pooled
    (place,) = places(federation, able_clients(problem)[:1], federation.round)
    model: nn.Module = place.model(problem)
    forward = decouple(trace(model), model.eval(), ratio)
    with torch.inference_mode():
        hits = sum(
            int((forward(images).shared.argmax(1) == label).sum())
            for images, label in pooled.in_order(BATCH_IMAGES)
        )
    return hits / len(pooled)
