"""The experiments of this repository, as DVC keeps them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pfl.errors import InputError

# How the names of the metrics begin.
METRICS = ("fedhip.", "trained.", "fedhip-external.", "trained-external.")
TOLD_APART = ("Experiment", "rev", "typ", "Created", "parent", "State", "Executor")
Value = str | float


@dataclass(frozen=True)
class Experiment:
    """One experiment, or the commit that experiments start from.

    Attributes:
        name: how DVC calls it.
        parameters: by their dotted names.
        metrics: accuracies by name, means over clients or of the external test; those known.
    """

    name: str
    parameters: Mapping[str, Value]
    metrics: Mapping[str, float]


def experiments() -> list[Experiment]:
    """All experiments of the present commit that have metrics, without repetitions.

    Raises:
        InputError: this is no repository of Git and DVC.
    """
    from dvc.api import exp_show
    from dvc.exceptions import DvcException

    try:
        rows = exp_show(param_deps=True)
    except DvcException as error:
        raise InputError(
            f"DVC tells of no experiments here ({error}): run in a Git clone of the project, "
            "without core.no_scm."
        ) from error
    found: dict[tuple[object, ...], Experiment] = {}
    for row in rows:
        one = experiment(row)
        if one.metrics:
            known = (*sorted(one.parameters.items()), *sorted(one.metrics.items()))
            found.setdefault(known, one)
    return list(found.values())


def experiment(row: Mapping[str, Any]) -> Experiment:
    """One row of ``dvc.api.exp_show``, in which what is unknown is None or a sign for it."""
    metrics, parameters = {}, {}
    for key, value in row.items():
        name = key.rpartition(":")[2]  # the file is named before it where names collide
        if name.startswith(METRICS):
            if isinstance(value, int | float):
                metrics[name] = float(value)
        elif key not in TOLD_APART and "/" not in name and value is not None:
            parameters[name] = value if isinstance(value, int | float) else str(value)
    return Experiment(str(row.get("Experiment") or row.get("rev")), parameters, metrics)
