"""The paper's own server: FedHiP's recursion (9) to (12), kept as the reference.

Source: arXiv 2508.04470. What clients send there are C_k and L_k, and the server fuses them one by
one. Tests and benchmarks compare it with :func:`pfl.fedhip.closed_form.aggregate`, which the
pipeline uses.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from pfl.fedhip.moments import Moments
from pfl.ridge.linalg import definite, factor


@dataclass(frozen=True)
class PaperUpload:
    """What a client sends in the paper: C_k (6) and L_k (7)."""

    gram: Float[np.ndarray, "m m"]
    head: Float[np.ndarray, "m d"]


def paper_upload(client: Moments, beta: float) -> PaperUpload:
    """C_k = F_kᵀF_k + βI and L_k = C_k⁻¹ F_kᵀY_k, equations (6) and (7)."""
    gram = client.gram_matrix()
    ridged = gram + beta * np.eye(len(gram))
    return PaperUpload(ridged, factor(gram, beta).solve(client.cross_matrix()))


def recursive_global_head(uploads: Sequence[PaperUpload], beta: float) -> Float[np.ndarray, "m d"]:
    """The paper's server, equations (9) to (12): the reference for ``aggregate``.

    From S_1 = C_1 and M_1 = L_1, for every further client
    S_k = S_{k−1} + C_k (9) and M_k = M_{k−1} + S_k⁻¹ C_k (L_k − M_{k−1}) (10, 11);
    then G = (S_K − (K−1) βI)⁻¹ S_K M_K (12).

    Raises:
        InputError: β is lost in float64 beside a cumulative Gram matrix.

    Notes:
        One factorization a client, K m³/3 flops in all, each of which loses digits to the condition
        of S_k. :func:`pfl.fedhip.closed_form.aggregate` gives the same head from sums.
    """
    lost = f"The ridge beta = {beta:g} is lost in float64 in the recursion: set beta higher."
    cumulative, fused = uploads[0].gram, uploads[0].head
    for upload in uploads[1:]:
        cumulative = cumulative + upload.gram
        fused = fused + definite(cumulative, lambda _: lost).solve(
            upload.gram @ (upload.head - fused)
        )
    surplus = (len(uploads) - 1) * beta * np.eye(len(fused))
    return definite(cumulative - surplus, lambda _: lost).solve(cumulative @ fused)
