"""The local test of one model: accuracy on a client's own samples, and its probabilities there.

Beside accuracy stand the likelihood and the calibration of the same predictions' probabilities,
the softmax of the scores (:mod:`pfl.evaluation.reliability.sums`). A client's own samples are
predicted apart from everybody's, in the batches in which a client that has no others predicts them:
rounding depends on the batch, so only then do both come to the same numbers.
"""

from dataclasses import dataclass, replace
from math import nan

import numpy as np
import torch
from jaxtyping import Float32, Int
from torch import nn

from pfl.data.tensors.client_data import ClientData
from pfl.evaluation.reliability.sums import Reliability, log_probabilities, reliability
from pfl.training.problem import LocalProblem

BATCH_IMAGES = 256

Logits = Float32[np.ndarray, "n d"]


@dataclass(frozen=True)
class OwnTest:
    """What a model achieves on the samples of one client; accuracies are NaN without any.

    Attributes:
        accuracy: on its test samples.
        validation: on its validation samples.
        reliability: of the probabilities for its test samples; of this client alone.
    """

    accuracy: float
    validation: float
    reliability: Reliability


UNTESTED = OwnTest(nan, nan, Reliability.zero(1))


def own_test(problem: LocalProblem, model: nn.Module, client: int) -> OwnTest:
    """Test a model on the client's own test and validation samples.

    Raises:
        InputError: its scores are no finite numbers.
    """
    tests = problem.tests
    own, held_back = tests.pooled.take(tests.own[client]), tests.validation[client]
    validation = nan
    if len(held_back):
        validation = _accuracy(predict(model, held_back), _labels(held_back))
    if not len(own):
        return replace(UNTESTED, validation=validation)
    logits, label = predict(model, own), _labels(own)
    sums = reliability(log_probabilities(logits), label, np.zeros(len(label), np.int64), 1)
    return OwnTest(_accuracy(logits, label), validation, sums)


def _labels(data: ClientData) -> Int[np.ndarray, " n"]:
    return data.label.cpu().numpy()


def _accuracy(logits: Logits, label: Int[np.ndarray, " n"]) -> float:
    return float(np.mean(logits.argmax(1) == label))


def predict(model: nn.Module, data: ClientData) -> Logits:
    """Class scores of all samples, in order."""
    model.eval()
    with torch.inference_mode():
        parts = [model(images).float().cpu() for images, _ in data.in_order(BATCH_IMAGES)]
    return torch.cat(parts).numpy()
