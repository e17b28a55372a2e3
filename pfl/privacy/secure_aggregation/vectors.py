"""Moments as one vector of numbers modulo 2⁶⁴, and back.

Two's complement: the int64 x is x mod 2⁶⁴, sums wrap around, and a total that int64 holds is read
back exactly. It does hold it: the largest entry of a total over N samples is below N · 2³⁰
(products of two int16 numbers), hence below 2⁶³ for N < 2³³. What wraps around on the way does not
matter. All classes are sent, also those of which a client has no sample.
"""

import numpy as np
from jaxtyping import UInt64

from pfl.fedhip.moments import Moments


def to_vector(sent: Moments) -> UInt64[np.ndarray, " n"]:
    """A copy of the Gram triangle, the class sums and the counts: m(m+1)/2 + d·m + d numbers."""
    return np.concatenate([sent.gram, sent.cross.ravel(), sent.count]).view(np.uint64)


def from_vector(vector: UInt64[np.ndarray, " n"], zero: Moments) -> Moments:
    """The moments of a vector, in the shape and step of ``zero``."""
    ends = np.cumsum([zero.gram.size, zero.cross.size])
    gram, cross, count = np.split(vector.view(np.int64), ends)
    return Moments(gram, cross.reshape(zero.cross.shape), count, zero.step)
