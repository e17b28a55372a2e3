"""Shamir's secret sharing: any t of n shares give a 32-byte secret, t − 1 tell nothing about it.

The secret s is the value at 0 of a random polynomial over a prime field,

    f(x) = s + a_1 x + … + a_{t−1} x^{t−1}  (mod p),    a_j uniform,

and the share at x ≠ 0 is f(x). Through t shares goes one such polynomial; through t − 1 shares and
*any* secret goes one too, so they fit every secret equally well: secrecy rests on no assumption.

A. Shamir, How to share a secret, CACM 22 (1979). p = 2²⁵⁶ + 297 is the least prime above 2²⁵⁶.
"""

import math
from collections.abc import Iterable, Sequence

from pfl.errors import InputError
from pfl.privacy.secure_aggregation.keys import Entropy

PRIME = 2**256 + 297
SECRET_BYTES = 32
SHARE_BYTES = 33


def split(
    secret: bytes, threshold: int, points: Iterable[int], entropy: Entropy
) -> dict[int, bytes]:
    """Shares of a 32-byte secret at distinct points from 1 on; any ``threshold`` of them give it.

    Coefficients are 512 random bits modulo p, which is uniform to within 2⁻²⁵⁵.
    """
    random = (int.from_bytes(entropy(64)) % PRIME for _ in range(threshold - 1))
    coefficients = [int.from_bytes(secret), *random]
    return {x: evaluate(coefficients, x).to_bytes(SHARE_BYTES) for x in points}


def recover(shares: dict[int, bytes], threshold: int) -> bytes:
    """The secret of ``threshold`` or more shares by point.

    Raises:
        InputError: there are fewer shares, or they are of no 32-byte secret.
    """
    if len(shares) < threshold:
        raise InputError(
            f"{len(shares)} shares of a secret do not give it, {threshold} are needed: too few "
            "clients remain. Start the sum again with the clients that answer."
        )
    values = {x: int.from_bytes(shares[x]) for x in sorted(shares)[:threshold]}
    secret = interpolate(values)
    if secret >> (8 * SECRET_BYTES):
        raise InputError("The shares given are not of one secret: start the sum again.")
    return secret.to_bytes(SECRET_BYTES)


def evaluate(coefficients: Sequence[int], x: int, prime: int = PRIME) -> int:
    """f(x) mod p of the polynomial with these coefficients, the constant first."""
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * x + coefficient) % prime
    return value


def interpolate(values: dict[int, int], prime: int = PRIME) -> int:
    """f(0) mod p of the polynomial of least degree with f(x) = ``values[x]``, all x ≠ 0.

    Lagrange: f(0) = Π_j x_j · Σ_i f(x_i) / D_i with D_i = x_i Π_{j≠i} (x_j − x_i). The fractions
    are added as one, so that there is one division.
    """
    top, bottom = 0, 1
    for x, value in values.items():
        under = x * math.prod(other - x for other in values if other != x)
        top, bottom = (top * under + value * bottom) % prime, bottom * under % prime
    return math.prod(values) * top * pow(bottom, -1, prime) % prime
