"""What leave-one-out needs of one client: its samples beside what the server sent.

A residual y_i − f_iᵀP⁽⁻ⁱ⁾ is that of a head made without sample i: the sample leaves the client
*and* the sums over all clients, so the global head changes, too. Nothing is refitted. Notation, in
all families: G the global head at β, A = FᵀF + βI over all samples, E = Y_k − F_k G, K = F_k F_kᵀ,
K_A = F_k A⁻¹ F_kᵀ, R(w) = (I + wK)⁻¹ as in :mod:`pfl.ridge.smoother`.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from pfl.fedhip.closed_form import one_hot
from pfl.ridge.gcv import GlobalPath
from pfl.ridge.smoother import Smoother, smoother


@dataclass(frozen=True)
class GlobalFit:
    """What the global head at one β says of a client's samples.

    Attributes:
        errors: E.
        whitened: any V with V Vᵀ = K_A, such as F_k L⁻ᵀ where A = L Lᵀ.
        strain: ‖A‖ ‖A⁻¹f_i‖² of each sample, by which rounding in A moves (K_A)_ii.
        condition: ‖A‖ ‖A⁻¹‖.
    """

    errors: Float[np.ndarray, "n d"]
    whitened: Float[np.ndarray, "n m"]
    strain: Float[np.ndarray, " n"]
    condition: float

    @cached_property
    def leverages(self) -> Float[np.ndarray, " n"]:
        """Diagonal of K_A."""
        return np.sum(self.whitened**2, axis=1)


@dataclass(frozen=True)
class ClientProblem:
    """One client's samples, and the spectra that all families' paths are made of.

    Attributes:
        pooled: the spectrum of the sums over all clients.
        beta: the server's β, of the global head.
        features: F_k.
        labels: their classes.
    """

    pooled: GlobalPath
    beta: float
    features: Float[np.ndarray, "n m"]
    labels: Int[np.ndarray, " n"]

    @cached_property
    def targets(self) -> Float[np.ndarray, "n d"]:
        """Y_k."""
        return one_hot(self.labels, self.pooled.cross.shape[1])

    @cached_property
    def rotated(self) -> Float[np.ndarray, "n m"]:
        """F_k U, in the coordinates of the eigenvectors of FᵀF."""
        return self.features @ self.pooled.spectrum.vectors

    @cached_property
    def own_fit(self) -> Smoother:
        """The spectrum of K."""
        return smoother(self.features)

    def global_fit(self, beta: float) -> GlobalFit:
        """What G(β) says of the samples, with V = F_k U (Λ + βI)^(−1/2) for A = FᵀF + βI."""
        ridged = self.pooled.spectrum.values + beta
        whitened = self.rotated / np.sqrt(ridged)
        return GlobalFit(
            errors=self.targets - self.rotated @ self.pooled.head(beta),
            whitened=whitened,
            strain=whitened**2 @ (ridged[-1] / ridged),
            condition=float(ridged[-1] / ridged[0]),
        )
