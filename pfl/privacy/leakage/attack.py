"""What the server can learn of a client's samples from the client's upload alone.

FedHiP's (arXiv 2508.04470) server gets C_k = F_kᵀF_k + βI and L_k = C_k⁻¹F_kᵀY_k, so it has the
Gram matrix S = C_k − βI and the cross-moment B = C_k L_k. Labels are one-hot, and therefore

* column c of B is the sum of the features of class c: of its only sample, if there is one;
* BᵀS⁺B = YᵀPY with P the projector onto the range of F in the space of samples. With independent
  rows, which takes N_k ≤ m, P = I and the matrix is diag(n_c), the number of samples per class;
* a feature f of the client lies in range(S), and another sample's does not while rank(S) < m;
* S ⪰ ffᵀ for a feature f of the client, hence fᵀS⁻¹f ≤ 1; another sample's may be larger, also
  when rank(S) = m, less often the more samples there are;
* S = BBᵀ means that every sample is alone in its class, hence known: N_k = 1, for instance.

Ranks, ranges and BᵀS⁺B are computed in exact integers; see :mod:`pfl.privacy.leakage.modular`.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int16, Int64

from pfl.data.features.fixed_point import LIMIT
from pfl.privacy.leakage.modular import eliminate, random_residues, reduced, residues, times
from pfl.ridge.linalg import Factor, factor, pack, unpack

TRIES = 3
KEYS = 2  # null vectors in a key: a stranger fits with chance p⁻², 1.4e-14
RIDGE = 1e-9  # times the trace of S: keeps S⁻¹ within float64
SLACK = 1e-5  # of fᵀS⁻¹f ≤ 1; rounding is about ε/RIDGE, 2e-7


@dataclass(frozen=True)
class Intercepted:
    """The upper triangle of S, row by row, in steps², and B transposed, in steps.

    Class counts, which this project's uploads hold too, are left out.
    """

    gram: Int64[np.ndarray, " triangle"]
    cross: Int64[np.ndarray, "d m"]


@dataclass(frozen=True)
class Findings:
    """What the attacker makes of it.

    Attributes:
        rank: of S; the number of samples, if their features are independent.
        counts: samples per class as found.
        exact: whether the counts come out of exact arithmetic as whole numbers that fit together;
            otherwise they are rounded estimates.
        key: vectors (residues) orthogonal to every feature of the client and, chance aside, to no
            other; without columns where ``regular`` is there.
        regular: factor of S plus a tiny ridge, if rank(S) = m or the rows are not independent:
            others' features may then lie in range(S), too.
        everything: whether the columns of B account for all of S.
        cross: B transposed, as uploaded.
    """

    rank: int
    counts: Int64[np.ndarray, " d"]
    exact: bool
    key: Float[np.ndarray, "m keys"]
    regular: Factor | None
    everything: bool
    cross: Int64[np.ndarray, "d m"]

    @property
    def single(self) -> Bool[np.ndarray, " d"]:
        """Classes found to have one sample, whose feature ``cross`` then holds."""
        largest: np.ndarray = np.abs(self.cross).max(1, initial=0)
        return np.equal(self.counts, 1) & np.less_equal(largest, LIMIT)

    def members(self, rows: Int16[np.ndarray, "n m"]) -> Bool[np.ndarray, " n"]:
        """Which of these features could be the client's; its own always can.

        Those that the key is orthogonal to, or without a key those with fᵀS⁻¹f ≤ 1.
        """
        if self.regular is None:
            return np.equal(times(residues(rows), self.key), 0).all(1)
        half = self.regular.half_solve(rows.astype(np.float64).T)
        return np.less_equal(np.square(half).sum(0), 1 + SLACK)


def attack(upload: Intercepted, rng: np.random.Generator) -> Findings:
    """Run every attack on one upload.

    Nothing but the key depends on ``rng`` (a change of basis, the choice of null vectors), unless
    by accidents of a chance about 1/p.
    """
    classes, width = upload.cross.shape
    solved = solve(upload, rng)
    if solved is None:
        solved = width, np.zeros((width, classes)), np.zeros((width, 0))
    rank, solution, key = solved
    counts = exact_counts(upload, rank, solution)
    regular = regularized(upload) if rank == width or counts is None else None
    return Findings(
        rank,
        estimated_counts(upload, regular) if counts is None else counts,
        counts is not None,
        key if regular is None else key[:, :0],
        regular,
        accounts_for_all(upload),
        upload.cross,
    )


def solve(
    upload: Intercepted, rng: np.random.Generator
) -> tuple[int, Float[np.ndarray, "m d"], Float[np.ndarray, "m keys"]] | None:
    """Rank of S, a solution X of SX = B and random null vectors of S, all modulo p.

    None if B is not in range(S) modulo p. It is over the integers, so this takes an S of full rank
    that is singular modulo p by chance.

    Notes:
        A feature that is always zero gives a zero pivot. In a random basis R, RᵀSR has its first r
        leading minors other than zero, r the rank, but for a chance about r/p; then another R is
        drawn. From H = A⁻¹D, [A D] being the first r rows of RᵀSR, the null vectors are
        R [−H; I] w, and X = R [A⁻¹(RᵀB)_r; 0].
    """
    width = upload.cross.shape[1]
    gram, cross = unpack(residues(upload.gram), width), residues(upload.cross.T)
    for _ in range(TRIES):
        basis = random_residues((width, width), rng)
        system = times(basis.T, np.hstack([times(gram, basis), cross]))
        rank = eliminate(system, width)
        if system[rank:, rank:].any():
            continue
        solution = times(basis[:, :rank], system[:rank, width:])
        weight = random_residues((width - rank, KEYS if rank < width else 0), rng)
        head = times(system[:rank, rank:width], weight)
        return rank, solution, times(basis, np.vstack([reduced(-head), weight]))
    return None


def exact_counts(
    upload: Intercepted, rank: int, solution: Float[np.ndarray, "m d"]
) -> Int64[np.ndarray, " d"] | None:
    """Samples per class from BᵀX = YᵀPY; None if that matrix cannot be diag(n_c).

    It can if it is diagonal without negative entries and rank ≤ Σ n_c ≤ m, the first because no
    more rows than samples are independent, the second because independent rows are asked for.
    """
    table = times(residues(upload.cross), solution)
    counts = np.diagonal(table).astype(np.int64)
    diagonal = np.count_nonzero(table) == np.count_nonzero(counts)
    fits = counts.min(initial=0) >= 0 and rank <= counts.sum() <= upload.cross.shape[1]
    return counts if diagonal and fits else None


def regularized(upload: Intercepted) -> Factor | None:
    """Factor of S plus a tiny ridge; None if S is zero."""
    gram = unpack(upload.gram, upload.cross.shape[1])
    trace = float(np.trace(gram))
    return factor(gram, RIDGE * trace) if trace else None


def estimated_counts(upload: Intercepted, regular: Factor | None) -> Int64[np.ndarray, " d"]:
    """Samples per class, roughly, whatever their number: row sums of BᵀS⁻¹B, rounded.

    The sum of row c is y_cᵀP1. Features whose combinations come close to a constant, as those of
    networks do, have P1 ≈ 1, and y_cᵀ1 = n_c.
    """
    if regular is None:
        return np.zeros(len(upload.cross), np.int64)
    cross = upload.cross.astype(np.float64)
    weights = regular.solve(cross.sum(0)[:, None])
    return np.rint(cross @ weights)[:, 0].astype(np.int64)


def accounts_for_all(upload: Intercepted) -> bool:
    """Whether S = BBᵀ: the features that stand in B are all there are."""
    cross = upload.cross
    if np.abs(cross).max(initial=0) > LIMIT:  # No sample's feature; and products would overflow.
        return False
    diagonal = np.diagonal(unpack(upload.gram, cross.shape[1]))
    if not np.array_equal((cross**2).sum(0), diagonal):
        return False
    return np.array_equal(pack(cross.T @ cross), upload.gram)
