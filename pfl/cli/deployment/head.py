"""A client's calibrated head: class scores whose softmax are probabilities, and their class prior.

    scores(x) = x W + b + γ log p(c)/π_c

W and b are as stored, times the head's scale; π are everybody's class shares, and p are the
client's, or others in their place: :meth:`CalibratedHead.with_shares`,
:meth:`CalibratedHead.with_counts`. See ``docs/prior.md``.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from pfl.artifacts.hashing import recorded_sha256
from pfl.artifacts.hdf5 import read, reading
from pfl.artifacts.project import Project
from pfl.artifacts.provenance import Origins
from pfl.data.samples.clients import check_number
from pfl.errors import InputError
from pfl.evaluation.metrics import HeadKind
from pfl.fedhip.heads import Heads, open_heads
from pfl.runtime.class_prior import log_prior_ratio, log_share_ratio


@dataclass(frozen=True, eq=False)
class CalibratedHead:
    """A head and the class prior that its scores count, in float64.

    Attributes:
        weight: W.
        bias: b.
        prior: γ, how far the class prior counts; 0 for a head that knows none apart.
        log_ratio: log p(c)/π_c.
        everybody: π.
    """

    weight: Float[np.ndarray, "m d"]
    bias: Float[np.ndarray, " d"]
    prior: float
    log_ratio: Float[np.ndarray, " d"]
    everybody: Float[np.ndarray, " d"]

    def scores(self, features: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n d"]:
        """Log-probabilities of the classes, but for a constant of each sample."""
        return features @ self.weight + self.offset

    @property
    def offset(self) -> Float[np.ndarray, " d"]:
        """What is added to x W: b + γ log p(c)/π_c."""
        return self.bias + self.prior * self.log_ratio

    @property
    def shares(self) -> Float[np.ndarray, " d"]:
        """The class prior p; 0 for a class that nobody has."""
        own = self.everybody * np.exp(self.log_ratio)
        return own / own.sum()

    def with_shares(self, shares: Float[np.ndarray, " d"]) -> "CalibratedHead":
        """The head for samples whose classes have these shares."""
        return replace(self, log_ratio=log_share_ratio(shares, self.everybody))

    def with_counts(self, counts: Float[np.ndarray, " d"]) -> "CalibratedHead":
        """The head of a client with so many samples of each class; see the class prior's module."""
        return replace(self, log_ratio=log_prior_ratio(counts, self.everybody, None))


def load_head(project: Project, client: int | None, kind: HeadKind) -> CalibratedHead:
    """One head of one client; ``None`` is a client without samples, which has the global head.

    The global head counts no client's prior: its scores hold for everybody's shares, p = π.

    Raises:
        InputError: the artifact is missing or damaged, made from others than are there, or there
            is no such client or head.
    """
    server, features = project.artifact("server"), project.artifact("features")
    with open_heads(project.artifact("heads")) as heads:
        if client is not None:
            check_number(client, heads.shape[0])
        made = Origins(
            server=recorded_sha256(server, "server"),
            features=recorded_sha256(features, "features"),
        )
        heads.origins.check("heads", made)
        with reading(server, "server") as file:
            shared = read(file, "head")
        if kind is HeadKind.shared:
            return _global(heads, shared)
        return _own(heads, shared, client, kind)


def _global(heads: Heads, shared: Float[np.ndarray, "m d"]) -> CalibratedHead:
    nothing = np.zeros(shared.shape[1])
    return CalibratedHead(heads.temperature * shared, nothing, 1.0, nothing, heads.shares)


def _own(
    heads: Heads, shared: Float[np.ndarray, "m d"], client: int | None, kind: HeadKind
) -> CalibratedHead:
    if client is None:
        raise InputError(
            f"A new client has no {kind.value} head, which is made from a client's own samples: "
            "leave --head out, or take --head global."
        )
    if not heads.stayed[client]:
        raise InputError(
            f"Client {client} was left out by aggregate.leave-out, so it has no head of "
            "its own: take --head global, --client new, or another client."
        )
    stored = heads.of(kind.value, shared, client, client + 1)
    scale = float(stored.scale[0])
    return CalibratedHead(
        weight=scale * stored.weight[0].astype(np.float64),
        bias=scale * stored.bias[0].astype(np.float64),
        prior=float(stored.prior[0]),
        log_ratio=stored.log_ratio[0],
        everybody=heads.shares,
    )
