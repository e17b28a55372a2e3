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
    """One experiment, or the commit that experiments start from, by the name that DVC has for it.

    Parameters are by their dotted names; ``metrics`` are the accuracies that are known, means over
    clients or of the external test.
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
    different: dict[tuple[object, ...], Experiment] = {}
    for known in map(experiment, rows):
        if known.metrics:
            content = (*sorted(known.parameters.items()), *sorted(known.metrics.items()))
            different.setdefault(content, known)
    return list(different.values())


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
