"""Accuracy against a parameter: means over the experiments with the same value."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pfl.artifacts.csv import csv_text
from pfl.cli.sweep.experiments import Experiment, Value
from pfl.errors import InputError


@dataclass(frozen=True)
class Point:
    """One metric at one value of the parameter: the mean, and the ends, over experiments."""

    value: Value
    experiments: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Sweep:
    """What experiments say about a parameter.

    Attributes:
        parameter: its dotted name.
        series: the points of each metric, numbers ascending, then words.
        others: parameters that differ between the experiments too.
    """

    parameter: str
    series: dict[str, list[Point]]
    others: list[str]


def varying(found: Sequence[Experiment]) -> list[str]:
    """Names of the parameters that do not have one value throughout."""
    names = dict.fromkeys(name for one in found for name in one.parameters)
    return [name for name in names if len({one.parameters.get(name) for one in found}) > 1]


def gather_sweep(found: Sequence[Experiment], parameter: str) -> Sweep:
    """Gather the metrics at every value of a parameter.

    FedHiP's metrics are left out if none of them changes, and so are those of trained methods: it
    then is a parameter of the others.

    Raises:
        InputError: no two experiments differ in it.
    """
    changed = varying(found)
    if parameter not in changed:
        known = ", ".join(changed) or "nothing"
        raise InputError(
            f"The {len(found)} experiment(s) with metrics do not differ in '{parameter}' but in "
            f"{known}: name one of these, or run others (docs/sweeps.md)."
        )
    names = dict.fromkeys(name for one in found for name in one.metrics)
    seen = {name: {one.metrics.get(name) for one in found} for name in names}
    alive = {name.split(".")[0] for name, values in seen.items() if len(values) > 1}
    names = {name: None for name in names if name.split(".")[0] in alive} or names
    series = {name: _points(found, parameter, name) for name in names}
    return Sweep(parameter, series, [name for name in changed if name != parameter])


def _points(found: Sequence[Experiment], parameter: str, metric: str) -> list[Point]:
    groups: dict[Value, list[float]] = {}
    for one in found:
        if metric in one.metrics and parameter in one.parameters:
            groups.setdefault(one.parameters[parameter], []).append(one.metrics[metric])
    return [
        Point(value, len(group), statistics.fmean(group), min(group), max(group))
        for value, group in sorted(groups.items(), key=lambda item: _order(item[0]))
    ]


def _order(value: Value) -> tuple[bool, float, str]:
    """Numbers by size, then words by the alphabet."""
    return (True, 0.0, value) if isinstance(value, str) else (False, value, "")


def sweep_csv(found: Sweep) -> str:
    """One line a metric and value."""
    rows = (
        [metric, f"{p.value:g}" if isinstance(p.value, float | int) else p.value, p.experiments,
         p.mean, p.low, p.high]
        for metric, points in found.series.items()
        for p in points
    )  # fmt: skip
    return csv_text(["metric", found.parameter, "experiments", "mean", "least", "greatest"], rows)
