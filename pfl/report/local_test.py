"""Of how many own test samples each client's model is right, from each run's ``per_client.csv``."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from pfl.artifacts.json import other_form
from pfl.errors import InputError
from pfl.evaluation.metrics import FEDHIP_PREFIX, HEADS, LOCAL_TEST
from pfl.report.statistics.outcomes import Outcomes


def read_outcomes(runs: Mapping[str, Sequence[Path]], fedhip: Path) -> Outcomes:
    """The local test of each method's runs, a folder a seed, and of FedHiP's heads: one repeat.

    Raises:
        InputError: a file is missing or of another form, or of other test samples than the rest.
    """
    own = fedhip / "per_client.csv"
    tested, shares = _read(own, [f"{LOCAL_TEST}:{head}" for head in HEADS])
    right = {f"{FEDHIP_PREFIX}{head}": (shares[i] * tested)[None] for i, head in enumerate(HEADS)}
    of_runs = {}
    for method, folders in runs.items():
        counts = [_counts(folder / "per_client.csv", own, tested) for folder in folders]
        of_runs[method] = np.stack(counts)
    return Outcomes(
        [tested], {name: [np.rint(counts)] for name, counts in (of_runs | right).items()}
    )


def _counts(
    path: Path, other: Path, tested: Int[np.ndarray, " clients"]
) -> Float[np.ndarray, " clients"]:
    """Of how many each client's model is right, in one run."""
    samples, shares = _read(path, [LOCAL_TEST])
    if not np.array_equal(samples, tested):
        raise InputError(
            f"{path} has other clients or test samples than {other}: run `dvc repro`, which makes "
            "both from one partition."
        )
    return shares[0] * samples


def _read(
    path: Path, columns: Sequence[str]
) -> tuple[Int[np.ndarray, " clients"], Float[np.ndarray, "columns clients"]]:
    """Test samples, and accuracy in columns: NaN where a cell is empty."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        tested = np.array([int(row["test"]) for row in rows], dtype=np.int64)
        shares = [[float(row[name] or "nan") for row in rows] for name in columns]
    except OSError as error:
        raise InputError(f"{path} is missing: run `dvc repro`, which makes it.") from error
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise other_form(path, f"not one line of numbers a client ({error!r})") from error
    return tested, np.array(shares).reshape(len(columns), len(rows))
