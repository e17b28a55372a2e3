"""The heads of ``heads.h5`` and ``server.h5`` as their docstrings define them, without the library.

Tests count with them what reports tell.
"""

from dataclasses import dataclass

import h5py
import numpy as np

OWN = ("local", "equation-14", "personalized")  # kinds with weights of their own


@dataclass(frozen=True)
class PlainHead:
    """Class scores s·(x W + b) + γ·r of features x; r is the client's, or that of even shares."""

    weight: np.ndarray
    bias: np.ndarray
    scale: float
    prior: float
    own_ratio: np.ndarray
    even_ratio: np.ndarray

    def scores(self, features, own):
        """Of the client's own samples, or of anybody's."""
        ratio = self.own_ratio if own else self.even_ratio
        return self.scale * (features @ self.weight + self.bias) + self.prior * ratio


def plain_heads(heads, server=None):
    """Each client's head of each kind, by its name; those that are G where there is a server."""
    with h5py.File(heads) as file:
        found = {kind: own_heads(file, kind) for kind in OWN}
        if server is not None:
            with h5py.File(server) as sums:
                shared = sums["head"][...]
            found |= {
                "global-prior": own_heads(file, "global-prior", shared),
                "global": [calibrated(shared, float(file.attrs["temperature"]))]
                * len(found["local"]),
            }
    return found


def own_heads(file, kind, shared=None):
    """All clients' heads of a group."""
    group, share = file[kind], file["share"][...]
    ratio = file["log-ratio"][...]
    even = -np.log(np.where(share > 0, len(share) * share, 1.0))
    scale, prior = group["scale"][...], group["prior"][...]
    clients, classes = ratio.shape
    if shared is None:
        weight, bias = group["weight"][...].astype(float), group["bias"][...].astype(float)
    else:
        weight, bias = [shared] * clients, np.zeros((clients, classes))
    return [
        PlainHead(weight[k], bias[k], scale[k], prior[k], ratio[k], even) for k in range(clients)
    ]


def calibrated(shared, temperature):
    """G with a temperature, without a prior."""
    nothing = np.zeros(shared.shape[1])
    return PlainHead(shared, nothing, temperature, 0.0, nothing, nothing)
