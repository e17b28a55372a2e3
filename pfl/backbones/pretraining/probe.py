"""How good features are: the accuracy of a linear classifier on top, in closed form.

The classifier is FedHiP's global head, W = (FᵀF + βI)⁻¹FᵀY with β by generalized cross-validation.
It is tested on its own samples by exact leave-one-out: without sample i, the score of sample i is

    y_i − (y_i − f_iᵀW) / (1 − h_i),   h_i = f_iᵀ(FᵀF + βI)⁻¹f_i,

so that every labelled image both trains and tests, and none is tested by what it trained.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch.func import functional_call

from pfl.backbones.pretraining.recipe import ImageSet, Learner, encoder_weights
from pfl.ridge.gcv import GlobalPath, choose_beta
from pfl.ridge.linalg import spectrum, syrk

BATCH = 256  # images at once


def probe_accuracy(
    features: Float[np.ndarray, "n m"], labels: Int[np.ndarray, " n"], classes: int
) -> float:
    """Share of samples whose class the classifier of all other samples finds."""
    targets = np.eye(classes)[labels]
    eigen = spectrum(syrk(features))
    turned = features @ eigen.vectors
    path = GlobalPath(eigen, turned.T @ targets, len(features))
    beta = choose_beta(path)
    leverage = (turned**2) @ (1 / (eigen.values + beta))
    residual = targets - turned @ path.head(beta)
    scores = targets - residual / (1 - leverage)[:, None]
    return float(np.mean(scores.argmax(axis=1) == labels))


def encoder_features(learner: Learner, images: ImageSet) -> Float[np.ndarray, "n m"]:
    """Features of whole images by the encoder as it would be kept now."""
    encoder, weights = learner.model.encoder.eval(), encoder_weights(learner)
    with torch.inference_mode():
        parts = [
            functional_call(encoder, weights, (images.batch(slice(start, start + BATCH)),))
            for start in range(0, len(images.pixels), BATCH)
        ]
        features: np.ndarray = torch.cat(parts).double().cpu().numpy()
    return features
