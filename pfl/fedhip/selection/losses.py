"""The leave-one-out loss of every candidate at one client: each family's path from one spectrum."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from pfl.fedhip.closed_form import one_hot
from pfl.fedhip.selection.candidates import Candidate, Family
from pfl.fedhip.selection.criteria import Criterion, loss
from pfl.ridge.gcv import GlobalPath
from pfl.ridge.leave_one_out import (
    Shared,
    anchored_path,
    fedhip_path,
    global_residuals,
    local_path,
)
from pfl.ridge.smoother import Smoother, smoother

BLOCK = 1 << 22  # residuals held at once

Residuals = Callable[[Float[np.ndarray, " b"]], Float[np.ndarray, "n b d"]]


@dataclass(frozen=True)
class Own:
    """A client's own samples beside what the server sent.

    Attributes:
        shared: the spectrum of the sums over all clients.
        beta: the server's β, of the global head.
        features: F_k.
        labels: their classes.
    """

    shared: GlobalPath
    beta: float
    features: Float[np.ndarray, "n m"]
    labels: Int[np.ndarray, " n"]

    @cached_property
    def targets(self) -> Float[np.ndarray, "n d"]:
        """Y_k."""
        return one_hot(self.labels, self.shared.cross.shape[1])

    @cached_property
    def rotated(self) -> Float[np.ndarray, "n m"]:
        """F_k U, in the coordinates of the eigenvectors of FᵀF."""
        return self.features @ self.shared.spectrum.vectors

    @cached_property
    def fit(self) -> Smoother:
        """The spectrum of F_k F_kᵀ."""
        return smoother(self.features)

    def under(self, beta: float) -> Shared:
        """What G(β) says of the samples, with V = F_k U (Λ + βI)^(−1/2) for A = FᵀF + βI."""
        ridged = self.shared.spectrum.values + beta
        whitened = self.rotated / np.sqrt(ridged)
        return Shared(
            errors=self.targets - self.rotated @ self.shared.head(beta),
            whitened=whitened,
            strain=whitened**2 @ (ridged[-1] / ridged),
            condition=float(ridged[-1] / ridged[0]),
        )


def losses(
    own: Own, every: Sequence[Candidate], wanted: Sequence[int], criterion: Criterion
) -> Float[np.ndarray, " candidates"]:
    """Leave-one-out loss of the wanted candidates, NaN for the others; at least one sample.

    One decomposition serves all anchored and local heads, and one each β of equation (14).
    """
    result = np.full(len(every), np.nan)
    ordered = sorted(wanted, key=lambda i: _path_key(every[i]))
    together = max(1, BLOCK // own.targets.size)
    for (family, _), members in itertools.groupby(ordered, key=lambda i: _path_key(every[i])):
        numbers = list(members)
        residuals, name = _PATHS[family](own, every[numbers[0]]), _ALONG[family]
        for start in range(0, len(numbers), together):
            part = numbers[start : start + together]
            values = np.array([getattr(every[i], name) for i in part])
            result[part] = loss(criterion, residuals(values), own.labels)
    return result


def _path_key(one: Candidate) -> tuple[Family, float]:
    """Candidates on one path have one key."""
    return one.family, one.beta if one.family is Family.FEDHIP else 0.0


def _global(own: Own, _: Candidate) -> Residuals:
    residuals = global_residuals(own.under(own.beta))
    return lambda values: np.repeat(residuals[:, None, :], len(values), axis=1)


def _fedhip(own: Own, first: Candidate) -> Residuals:
    return fedhip_path(own.under(first.beta)).residuals


def _anchored(own: Own, _: Candidate) -> Residuals:
    return anchored_path(own.fit, own.under(own.beta)).residuals


def _local(own: Own, _: Candidate) -> Residuals:
    return local_path(own.fit, own.targets).residuals


_PATHS: dict[Family, Callable[[Own, Candidate], Residuals]] = {
    Family.GLOBAL: _global,
    Family.FEDHIP: _fedhip,
    Family.ANCHORED: _anchored,
    Family.LOCAL: _local,
}
_ALONG = {  # the parameter that varies along a path; the global head is one point
    Family.GLOBAL: "alpha",
    Family.FEDHIP: "alpha",
    Family.ANCHORED: "rho",
    Family.LOCAL: "beta",
}
