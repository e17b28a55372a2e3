"""The server step (all uploads → sums → G) against the paper's recursion (9)-(12), in one run.

`python -m benchmarks.server_step [--features 768 --classes 100 --clients 100]`

Errors are relative to a solution refined with 80-bit residuals. One BLAS thread.
"""

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.synthetic import STEP, clients_moments
from pfl.fedhip.closed_form import aggregate
from pfl.fedhip.moments import Moments, total
from pfl.fedhip.paper_recursion import PaperUpload, paper_upload, recursive_global_head
from pfl.ridge.linalg import cholesky, factor


def refined(summed: Moments, beta: float) -> np.ndarray:
    """G to full double precision: iterative refinement with extended-precision residuals."""
    gram = summed.gram_matrix().astype(np.longdouble)
    gram[np.diag_indices_from(gram)] += beta
    cross = summed.cross_matrix().astype(np.longdouble)
    solver = factor(summed.gram_matrix(), beta)
    head = solver.solve(summed.cross_matrix()).astype(np.longdouble)
    for _ in range(4):
        head += solver.solve((cross - gram @ head).astype(np.float64))
    return head.astype(np.float64)


def formed_recursion(uploads: Sequence[PaperUpload], beta: float) -> np.ndarray:
    """The recursion with its (m, m) matrix S_k⁻¹C_k formed.

    `recursive_global_head` applies it to (m, d) instead, which is cheaper.
    """
    cumulative, fused = uploads[0].gram, uploads[0].head
    identity = np.eye(len(cumulative))
    for upload in uploads[1:]:
        cumulative = cumulative + upload.gram
        weight = cholesky(cumulative).solve(upload.gram)
        fused = (identity - weight) @ fused + weight @ upload.head
    ridged = cumulative - (len(uploads) - 1) * beta * identity
    return cholesky(ridged).solve(cumulative @ fused)


def timed(work: Callable[[], np.ndarray], repeats: int) -> tuple[float, np.ndarray]:
    """Best time of a few runs, and the result."""
    best, result = np.inf, np.empty(0)
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return best, result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=768)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--samples", type=int, default=500, help="of each client")
    parser.add_argument("--beta", type=float, default=1.0)
    a = parser.parse_args()
    with threadpool_limits(1):
        sent = clients_moments(a.samples, a.features, a.classes, a.clients)
        uploads = [paper_upload(one, a.beta) for one in sent]
        zero = Moments.zero(a.features, a.classes, STEP)
        exact = refined(total(sent, zero), a.beta)
        rows = [
            ("sums", *timed(lambda: aggregate(total(sent, zero), a.beta).head, 9)),
            ("recursion", *timed(lambda: recursive_global_head(uploads, a.beta), 2)),
            ("with S⁻¹C formed", *timed(lambda: formed_recursion(uploads, a.beta), 1)),
        ]
    print(f"m={a.features} d={a.classes} K={a.clients} N_k={a.samples} beta={a.beta:g}")
    print(f"{'':>18}{'seconds':>10}{'times sums':>12}{'relative error':>16}")
    for name, seconds, head in rows:
        error = np.abs(head - exact).max() / np.abs(exact).max()
        print(f"{name:>18}{seconds:10.3f}{seconds / rows[0][1]:12.0f}{error:16.1e}")


if __name__ == "__main__":
    main()
