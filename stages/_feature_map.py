"""The section ``features`` of params.yaml, which every stage that reads features takes."""

from typing import Annotated

import typer

from pfl.data.client_features.feature_map import FeatureMap
from pfl.runtime.values import number_or_auto
from stages._run import LARGEST_SEED, obeying

LARGEST = 2**16  # dimensions: a Gram matrix of them has 17 GiB

Project = Annotated[
    int, typer.Option(help="Dimensions after a random projection, 0 for none.", min=0, max=LARGEST)
]
Lift = Annotated[
    int, typer.Option(help="Random ReLU features in their place, 0 for none.", min=0, max=LARGEST)
]


def _norm(text: str) -> float | None:
    return number_or_auto(text, "features.norm", word="none")


Norm = Annotated[
    str,
    typer.Option(callback=obeying(_norm), help="Length that features are clipped to, or none."),
]
Seed = Annotated[int, typer.Option(help="Of projection and lift.", min=0, max=LARGEST_SEED)]


def feature_map(project: int, lift: int, norm: str, seed: int) -> FeatureMap:
    """The map that the flags describe."""
    return FeatureMap(project, lift, _norm(norm), seed)
