"""The features as gram and all later stages see them: a fixed public map of the cached ones.

The map comes after the cache: a change of it never runs the backbone again. It is made of the
parameters alone, never of data, in this order: projection to fewer dimensions, lift to more, clip
to a stated length. All three give int16 rows again, row by row, so sums stay exact.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int16

from pfl.artifacts.hdf5 import Attribute
from pfl.data.client_features.clipping import Clip, clip
from pfl.data.client_features.random_projection import SignMap, lift, projection
from pfl.data.features.features import Features, open_features
from pfl.errors import InputError

log = logging.getLogger("pfl")
FACT = "feature-project"  # recorded by all that records a map


@dataclass(frozen=True)
class FeatureMap:
    """What the user set.

    Attributes:
        project: dimensions after the random projection, 0 for none.
        lift: random features of the lift, 0 for none.
        norm: length that rows are clipped to, None for no limit.
        seed: of projection and lift.
    """

    project: int = 0
    lift: int = 0
    norm: float | None = None
    seed: int = 0

    @property
    def facts(self) -> dict[str, Attribute]:
        """What artifacts made through this map record of it; a norm of 0 stands for none."""
        return {
            "feature-project": self.project,
            "feature-lift": self.lift,
            "feature-norm": self.norm or 0.0,
            "feature-seed": self.seed,
        }

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> "FeatureMap":
        """The map that the attributes of an artifact record."""
        project, lift, seed = (
            int(facts.get(f"feature-{name}", 0)) for name in ("project", "lift", "seed")
        )
        return cls(project, lift, float(facts.get("feature-norm", 0)) or None, seed)

    def maps(self, m: int, step: float) -> tuple[SignMap | Clip, ...]:
        """The maps of m features in this step, in order.

        Raises:
            InputError: the norm is too small for any step.
        """
        made: list[SignMap | Clip] = []
        if self.project:
            made.append(projection(m, step, self.project, self.seed))
            m, step = made[-1].m, made[-1].step
        if self.lift:
            made.append(lift(m, self.lift, self.seed))
            m, step = made[-1].m, made[-1].step
        if self.norm is not None:
            made.append(clip(m, step, self.norm))
        return tuple(made)


def check_feature_map(product: str, recorded: Mapping[str, Any], actual: FeatureMap) -> None:
    """Refuse a product of features through another map, which may even have the same shape.

    Nothing is checked where its recorded attributes tell of no map.

    Raises:
        InputError: it is one.
    """
    if FACT in recorded and FeatureMap.of(recorded) != actual:
        raise InputError(
            f"The {product} were made of features with other settings of the section features: "
            "run `dvc repro`, which makes them anew, or give the same settings."
        )


@contextmanager
def open_mapped_features(path: Path, feature_map: FeatureMap) -> Iterator[Features]:
    """Open ``features.h5`` to be read through a map; tells at the end what the map cut off.

    Raises:
        InputError: the file is missing, damaged or of another kind, or the map impossible.
    """
    with open_features(path) as plain:
        features, cut = plain, Counter[type]()
        for made in feature_map.maps(plain.m, plain.step):
            features = _mapped(features, made, cut)
        yield features
    if cut[SignMap]:
        log.warning(
            "%d values of the mapped features exceed the fixed-point range and were clipped: set "
            "extract.feature-range higher to avoid it.", cut[SignMap],
        )  # fmt: skip
    if feature_map.norm is not None:
        log.info("%d feature rows were longer than %g and clipped.", cut[Clip], feature_map.norm)


def _mapped(features: Features, made: SignMap | Clip, cut: Counter[type]) -> Features:
    """The features after one more map; what it cuts off is counted by the kind of map."""

    def rows(plain: Int16[np.ndarray, "n m"]) -> Int16[np.ndarray, "n p"]:
        mapped, number = made(plain)
        cut[type(made)] += number
        return mapped

    return features.mapped(rows, made.m, made.step)
