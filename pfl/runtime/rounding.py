"""A share of a count, rounded as the decimal number that the user wrote would be.

In floating point 0.29 · 100 is a little less than 29, and 0.1 · 30 a little more than 3; rounded
down or up, either would be one off.
"""

DIGITS = 9  # of a product that count: shares and numbers in use are far coarser


def portion(count: int, share: float) -> float:
    """``share`` of ``count`` without the rounding error, to be rounded up or down as one likes.

    ⌊portion(n, a/b)⌋ = ⌊n·a/b⌋ and ⌈portion(n, a/b)⌉ = ⌈n·a/b⌉ exactly, for n up to 10⁶ and
    denominators b up to 10⁶.
    """
    return round(count * share, DIGITS)
