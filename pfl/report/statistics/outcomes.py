"""Of how many of its own test samples each client's model is right: what all statistics are of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from pfl.errors import InputError


@dataclass(frozen=True)
class Outcomes:
    """The local test of several methods, over one or more repeats.

    A *repeat* is a partition: clients of its own, with test samples of their own. A method may have
    several *runs* in a repeat, one a training seed: they share clients and test samples, so they
    are averaged for each client, and are no repeats.

    Attributes:
        tested: n_rk, of each repeat r a vector over its clients k.
        right: by method, of each repeat, a line a run: of how many of these n_rk samples the model
            is right. NaN where a method has no model for a client. Methods may have different
            numbers of runs.

    Raises:
        InputError: shapes differ, or a model is right more often than it was tested.
    """

    tested: Sequence[Int[np.ndarray, " _"]]
    right: Mapping[str, Sequence[Float[np.ndarray, "_ _"]]]

    def __post_init__(self) -> None:
        """Refuse what is no count of the same samples."""
        for method, repeats in self.right.items():
            if len(repeats) != len(self.tested):
                raise InputError(
                    f"{method} has {len(repeats)} repeats and the test samples have "
                    f"{len(self.tested)}: compare methods on the same partitions."
                )
            for right, tested in zip(repeats, self.tested, strict=True):
                if len(right) == 0 or right.shape[1:] != tested.shape:
                    raise InputError(
                        f"{method} has results of shape {right.shape} for {len(tested)} clients: "
                        "compare methods on the same partition."
                    )
                known = ~np.isnan(right)
                if np.any(right[known] < 0) or np.any((right > tested)[known]):
                    raise InputError(
                        f"{method} is right more often than it was tested: "
                        "compare methods on the same partition."
                    )

    @property
    def methods(self) -> list[str]:
        """Their names, in the order given."""
        return list(self.right)

    def runs(self, method: str) -> list[Float[np.ndarray, "_ _"]]:
        """Accuracy a_rsk of each run s of a method, a matrix a repeat; NaN where it is unknown."""
        found = []
        for right, tested in zip(self.right[method], self.tested, strict=True):
            shares = np.full(right.shape, np.nan)
            np.divide(right, tested, out=shares, where=np.broadcast_to(tested > 0, right.shape))
            found.append(shares)
        return found

    def accuracies(self, method: str) -> list[Float[np.ndarray, " _"]]:
        """Accuracy a_rk of each client, the mean over runs, of each repeat; NaN where unknown."""
        return [shares.mean(0) for shares in self.runs(method)]


def mean_of(values: Sequence[Float[np.ndarray, " _"]]) -> float:
    """ā = 1/R Σ_r ā_r with ā_r = 1/K_r Σ_k a_rk: every repeat counts the same; NaN for nothing."""
    return float(np.mean([vector.mean() for vector in values])) if values else float("nan")
