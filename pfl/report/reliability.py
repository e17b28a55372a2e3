"""How far all methods' probabilities can be believed, from the runs' ``reliability.csv``."""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from pathlib import Path

from pfl.evaluation.metrics import FEDHIP_PREFIX, HEADS
from pfl.evaluation.reliability.bins import Bins, read_bins


def gather_bins(runs: Mapping[str, Sequence[Path]], fedhip: Path) -> dict[str, Bins]:
    """By method the bins of all its runs, a folder a seed, added up; then those of FedHiP's heads.

    A method is left out whose runs have no such table, since they tell no probabilities.

    Raises:
        InputError: a table is of another form.
    """
    folders = {**runs, **{f"{FEDHIP_PREFIX}{head}": [fedhip] for head in HEADS}}
    read = {
        method: [_of(folder / "reliability.csv", method) for folder in of_seeds]
        for method, of_seeds in folders.items()
    }
    known = {method: [one for one in of if one is not None] for method, of in read.items()}
    return {method: reduce(add, of) for method, of in known.items() if of}


def _of(path: Path, method: str) -> Bins | None:
    return read_bins(path).get(method) if path.exists() else None
