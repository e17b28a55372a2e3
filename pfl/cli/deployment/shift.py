"""Predictions of images whose class shares are estimated from these images, without labels.

See :mod:`pfl.evaluation.prior_shift`. The estimate replaces the prior that the scores were for only
where the likelihood ratio test tells the two apart. It is used as a client's labels are, as n q̂_c
samples of each class: few images do not exclude a class that is on none of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pfl.cli.deployment.head import CalibratedHead
from pfl.cli.deployment.model import Model
from pfl.cli.deployment.prediction import Prediction
from pfl.evaluation.prior_shift import PriorEstimate, estimate_prior
from pfl.evaluation.reliability.sums import log_probabilities


@dataclass(frozen=True, eq=False)
class Shifted:
    """What images say of their class shares, and the head for these where they differ."""

    estimate: PriorEstimate
    head: CalibratedHead


def shifted(
    model: Model, predictions: Sequence[Prediction]
) -> tuple[list[Prediction], Shifted | None]:
    """Predictions for the images' own class shares, and these; None where no image can be read."""
    scores = [prediction.scores for prediction in predictions if not prediction.error]
    if not scores:
        return list(predictions), None
    estimate = estimate_prior(log_probabilities(np.stack(scores)), model.head.shares)
    if not estimate.differs:
        return list(predictions), Shifted(estimate, model.head)
    head = model.head.with_counts(len(scores) * estimate.shares)
    change = head.offset - model.head.offset
    moved = [
        prediction if prediction.error else replace(prediction, scores=prediction.scores + change)
        for prediction in predictions
    ]
    return moved, Shifted(estimate, head)
