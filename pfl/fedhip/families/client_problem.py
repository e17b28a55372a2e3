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

from pfl.fedhip.closed_form import Knowledge, one_hot
from pfl.ridge.linalg import Spectrum, small_gram, syrk
from pfl.ridge.smoother import Smoother, smoother_of

JUDGED = 2048  # samples of a client with more of them than features that heads are judged by


@dataclass(frozen=True)
class Pooled:
    """What the sums over all clients say, the same for each of them.

    Attributes:
        server: the server's answer at its own β.
        spectrum: FᵀF = U Λ Uᵀ.
    """

    server: Knowledge
    spectrum: Spectrum

    @cached_property
    def whitener(self) -> Float[np.ndarray, "m m"]:
        """U (Λ + βI)^(−1/2), of A = FᵀF + βI."""
        ridged = self.spectrum.values + self.server.beta
        whitener: np.ndarray = self.spectrum.vectors / np.sqrt(ridged)
        return whitener

    @cached_property
    def center(self) -> Float[np.ndarray, " m"]:
        """μ̄ in the coordinates of U."""
        return self.server.scatter.center @ self.spectrum.vectors

    @cached_property
    def deviations(self) -> Float[np.ndarray, "d m"]:
        """μ_c − μ̄ in the coordinates of U."""
        return self.server.scatter.deviations @ self.spectrum.vectors

    @cached_property
    def taken(self) -> Float[np.ndarray, "e m"]:
        """Pᵀ in the coordinates of U: W = FᵀF − P Pᵀ, the columns √n_c (μ_c − μ̄) and √N μ̄."""
        scatter = self.server.scatter
        sizes = np.sqrt(np.append(scatter.count, scatter.samples))
        taken: np.ndarray = sizes[:, None] * np.vstack([self.deviations, self.center])
        return taken


@dataclass(frozen=True)
class GlobalFit:
    """What the global head at the server's β says of a client's samples.

    Attributes:
        errors: E, of the judged samples.
        whitened: of the judged samples the rows of V = F_k U (Λ + βI)^(−1/2), V Vᵀ = K_A.
        strain: ‖A‖ ‖A⁻¹f_i‖² of each of them, by which rounding in A moves (K_A)_ii.
        condition: ‖A‖ ‖A⁻¹‖.
    """

    errors: Float[np.ndarray, "j d"]
    whitened: Float[np.ndarray, "j m"]
    strain: Float[np.ndarray, " j"]
    condition: float

    @cached_property
    def leverages(self) -> Float[np.ndarray, " j"]:
        """Diagonal of K_A."""
        return np.sum(self.whitened**2, axis=1)


@dataclass(frozen=True)
class ClientProblem:
    """One client's samples, and the spectra that all families' paths are made of.

    Every head is fitted to all samples. Judged are all of them too, or ``JUDGED`` of them, evenly
    spread over the samples in their order, where there are more than that and than features.

    Attributes:
        pooled: what all clients have in common.
        features: F_k.
        labels: their classes.
    """

    pooled: Pooled
    features: Float[np.ndarray, "n m"]
    labels: Int[np.ndarray, " n"]

    @property
    def server(self) -> Knowledge:
        """The server's answer."""
        return self.pooled.server

    @cached_property
    def tall(self) -> bool:
        """Whether there are more samples than features."""
        return self.features.shape[0] > self.features.shape[1]

    @cached_property
    def judged(self) -> Int[np.ndarray, " j"]:
        """Numbers of the judged samples, ascending."""
        samples = len(self.labels)
        count = min(samples, JUDGED) if self.tall else samples
        return np.arange(count) * samples // max(count, 1)

    @cached_property
    def judged_labels(self) -> Int[np.ndarray, " j"]:
        """Classes of the judged samples."""
        return self.labels[self.judged]

    @cached_property
    def targets(self) -> Float[np.ndarray, "n d"]:
        """Y_k."""
        return one_hot(self.labels, len(self.server.count))

    @cached_property
    def judged_targets(self) -> Float[np.ndarray, "j d"]:
        """Y_k of the judged samples."""
        return self.targets[self.judged]

    @cached_property
    def count(self) -> Int[np.ndarray, " d"]:
        """n_kc, samples of each class."""
        return np.bincount(self.labels, minlength=len(self.server.count))

    @cached_property
    def cross(self) -> Float[np.ndarray, "m d"]:
        """F_kᵀY_k."""
        return self.features.T @ self.targets

    @cached_property
    def small(self) -> Float[np.ndarray, "r r"]:
        """K, or F_kᵀF_k where there are more samples than features."""
        return small_gram(self.features)

    @cached_property
    def rotated(self) -> Float[np.ndarray, "j m"]:
        """F_k U of the judged samples, in the coordinates of the eigenvectors of FᵀF."""
        return self.features[self.judged] @ self.pooled.spectrum.vectors

    @cached_property
    def own_fit(self) -> Smoother:
        """The spectrum of K."""
        return smoother_of(self.small, self.features[self.judged] if self.tall else None)

    @cached_property
    def errors(self) -> Float[np.ndarray, "n d"]:
        """E of all samples."""
        return self.targets - self.features @ self.server.head

    @cached_property
    def moment(self) -> Float[np.ndarray, "m d"]:
        """F_kᵀE."""
        return self.features.T @ self.errors

    @cached_property
    def global_fit(self) -> GlobalFit:
        """What G says of the samples."""
        ridged = self.pooled.spectrum.values + self.server.beta
        whitened = self.rotated / np.sqrt(ridged)
        return GlobalFit(
            errors=self.errors[self.judged],
            whitened=whitened,
            strain=whitened**2 @ (ridged[-1] / ridged),
            condition=float(ridged[-1] / ridged[0]),
        )

    @cached_property
    def mixed(self) -> Float[np.ndarray, "r r"]:
        """K_A, or VᵀF_k over all samples where there are more of them than features."""
        if self.tall:
            mixed: np.ndarray = self.pooled.whitener.T @ self.small
            return mixed
        return syrk(self.global_fit.whitened.T)

    @cached_property
    def whitened_gram(self) -> Float[np.ndarray, "m m"]:
        """VᵀV over all samples, where there are more of them than features."""
        gram = self.mixed @ self.pooled.whitener
        symmetric: np.ndarray = (gram + gram.T) / 2
        return symmetric

    @cached_property
    def centered(self) -> Float[np.ndarray, "j m"]:
        """(F_k − μ̄) U of the judged samples."""
        return self.rotated - self.pooled.center

    @cached_property
    def own_sums(self) -> Float[np.ndarray, "d m"]:
        """The sum of each class's samples, in the coordinates of U."""
        if self.tall:
            return self.cross.T @ self.pooled.spectrum.vectors
        return self.targets.T @ self.rotated

    @cached_property
    def squares(self) -> Float[np.ndarray, "j m"]:
        """The squares of :attr:`centered`."""
        return self.centered**2
