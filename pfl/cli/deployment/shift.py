"""Predictions of images whose class shares are estimated from these images, without labels.

See :mod:`pfl.evaluation.prior_shift`. The estimate replaces the prior that the scores were for only
where the likelihood ratio test tells the two apart.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pfl.cli.deployment.model import Model
from pfl.cli.deployment.prediction import Prediction
from pfl.evaluation.prior_shift import PriorEstimate, estimate_prior
from pfl.evaluation.reliability.sums import log_probabilities


def shifted(
    model: Model, predictions: Sequence[Prediction]
) -> tuple[list[Prediction], PriorEstimate | None]:
    """Predictions for the images' own class shares, and these; None where no image can be read."""
    scores = [prediction.scores for prediction in predictions if not prediction.error]
    if not scores:
        return list(predictions), None
    estimate = estimate_prior(log_probabilities(np.stack(scores)), model.head.shares)
    if not estimate.differs:
        return list(predictions), estimate
    change = model.head.with_shares(estimate.shares).offset - model.head.offset
    moved = [
        prediction if prediction.error else replace(prediction, scores=prediction.scores + change)
        for prediction in predictions
    ]
    return moved, estimate
