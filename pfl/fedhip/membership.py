"""Clients leave and join: integers taken out of the server's sums or added to them, then one solve.

Sums of integers are exact, so what is left after a client's integers were taken out is what the
others' add up to, bit for bit, and equal sums have equal answers. Nothing here depends on how many
clients there are.
"""

from collections.abc import Iterable

from pfl.errors import InputError
from pfl.fedhip.closed_form import Knowledge, aggregate
from pfl.fedhip.moments import Moments, total
from pfl.ridge.gcv import choose_beta, global_path


def solve_sums(summed: Moments, beta: float | None) -> Knowledge:
    """The global head of these sums at the ridge β, or where it is None at that of least GCV.

    Raises:
        InputError: β is lost in float64, or there is nothing to choose it from.
    """
    return aggregate(
        summed, choose_beta(global_path(*summed.ridge_sums())) if beta is None else beta
    )


def join(summed: Moments, sent: Iterable[Moments]) -> Moments:
    """The sums with the clients that sent these, in any order.

    Raises:
        InputError: they are of other features or classes.
    """
    return summed + _together(sent, summed)


def forget(summed: Moments, sent: Iterable[Moments]) -> Moments:
    """The sums without the clients that sent these, as if they had never been added.

    Raises:
        InputError: they are of other features or classes, cannot all be in the sums, or are all
            there is.
    """
    rest = summed - _together(sent, summed)
    if rest.samples == 0:
        raise InputError(
            "No sample would be left in the sums, so there would be no global head: keep a client."
        )
    return rest


def _together(sent: Iterable[Moments], like: Moments) -> Moments:
    return total(sent, Moments.zero(like.features, len(like.count), like.step))
