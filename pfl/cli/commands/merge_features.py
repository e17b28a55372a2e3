"""``pfl merge-features``: the shards of a feature extraction, put together."""

from pathlib import Path
from typing import Annotated

import typer


def merge_features(
    shards: Annotated[list[Path], typer.Argument(help="What extract --shard wrote, all of it.")],
    out: Annotated[Path, typer.Option(help="The artifact features.h5 to write.")],
) -> None:
    """Put the parts of a feature extraction together: the bytes of one without parts."""
    from pfl.backbones.extraction.shards import merge_shards

    merge_shards(shards, out)
