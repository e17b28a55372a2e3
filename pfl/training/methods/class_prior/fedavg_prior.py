"""FedAvg whose clients correct its scores by their own class prior, without training for it.

Clients that differ in how often they have each class, and not in what a class looks like, need
nothing else of a model of all to make it their own: they add log p_k(c)/π_c to its scores [Saerens,
Latinne & Decaestecker 2002], with the ratio of :mod:`pfl.runtime.class_prior`. Whatever another
method gains over FedAvg and not over this one, it gains from what classes look like at a client.
"""

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from pfl.runtime.class_prior import log_prior_ratio, shares
from pfl.training.algorithm import Algorithm, RoundContext
from pfl.training.layers import body_and_classifier
from pfl.training.methods.common import constant
from pfl.training.split import nothing_private


def fedavg_prior(model: nn.Module, smoothing: float) -> Algorithm:
    """FedAvg; before a client uses the model, log p_k(c)/π_c is added to the classifier's bias.

    p_k is of the client's training samples, drawn to everybody's shares π by ``smoothing`` samples
    a class. For π each client tells its class counts once; only their sum is needed. The prior is
    that of the client's own samples, so on others' the model is used as it was downloaded.
    """
    classes = body_and_classifier(model)[1].out_features

    def correct(model: nn.Module, context: RoundContext) -> dict[str, float]:
        own = np.bincount(context.data.label.cpu().numpy(), minlength=classes)
        ratio = log_prior_ratio(own, shares(context.class_count), smoothing)
        with torch.no_grad():
            bias = body_and_classifier(model)[1].bias
            bias.add_(torch.from_numpy(ratio).to(bias))
        return {}

    split = nothing_private(model.state_dict())
    method = constant("fedavg-prior", split, personalize=correct)
    return replace(method, for_own_samples=True, told=classes)
