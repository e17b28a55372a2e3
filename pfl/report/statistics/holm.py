"""Several tests at once: Holm's correction [Scandinavian Journal of Statistics 6 (1979)]."""

from collections.abc import Mapping


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """p̃_(i) = max_{j ≤ i} min(1, (m − j + 1) p_(j)) for p_(1) ≤ … ≤ p_(m), by name.

    Rejecting where p̃ ≤ 5 % rejects any true hypothesis with at most 5 %, whatever depends on what.
    """
    corrected, least = {}, 0.0
    for place, (name, value) in enumerate(sorted(p.items(), key=lambda pair: pair[1])):
        least = max(least, min(1.0, (len(p) - place) * value))
        corrected[name] = least
    return {name: corrected[name] for name in p}
