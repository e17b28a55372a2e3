"""Accuracy against a parameter: means over the experiments with the same value."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

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
    """What experiments say about a parameter: the points of each metric, numbers before words.

    ``others`` are the parameters that differ between the experiments too.
    """

    parameter: str
    series: dict[str, list[Point]]
    others: list[str]

    @property
    def columns(self) -> list[str]:
        """Headings of :attr:`rows`."""
        return ["metric", self.parameter, "experiments", "mean", "least", "greatest"]

    @property
    def rows(self) -> list[tuple[str, str, int, float, float, float]]:
        """One a metric and value."""
        return [
            (metric, value_text(p.value), p.experiments, p.mean, p.low, p.high)
            for metric, points in self.series.items()
            for p in points
        ]


def value_text(value: Value) -> str:
    """A value as tables and axes have it."""
    return value if isinstance(value, str) else f"{value:g}"


def varying(experiments: Sequence[Experiment]) -> list[str]:
    """Names of the parameters that do not have one value throughout."""
    settings = [experiment.parameters for experiment in experiments]
    names = dict.fromkeys(chain.from_iterable(settings))
    return [name for name in names if len({values.get(name) for values in settings}) > 1]


def gather_sweep(experiments: Sequence[Experiment], parameter: str) -> Sweep:
    """Gather the metrics at every value of a parameter.

    FedHiP's metrics are left out if none of them changes, and so are those of trained methods: it
    then is a parameter of the others.

    Raises:
        InputError: no two experiments differ in it.
    """
    changed = varying(experiments)
    if parameter not in changed:
        known = ", ".join(changed) or "nothing"
        raise InputError(
            f"The {len(experiments)} experiment(s) with metrics do not differ in '{parameter}' "
            f"but in {known}: name one of these, or run others (docs/sweeps.md)."
        )
    metrics = [experiment.metrics for experiment in experiments]
    names = list(dict.fromkeys(chain.from_iterable(metrics)))
    seen = {name: {values.get(name) for values in metrics} for name in names}
    alive = {name.split(".")[0] for name, values in seen.items() if len(values) > 1}
    names = [name for name in names if name.split(".")[0] in alive] or names
    series = {name: _points(experiments, parameter, name) for name in names}
    return Sweep(parameter, series, [name for name in changed if name != parameter])


def _points(experiments: Sequence[Experiment], parameter: str, metric: str) -> list[Point]:
    groups: dict[Value, list[float]] = {}
    for experiment in experiments:
        if metric in experiment.metrics and parameter in experiment.parameters:
            group = groups.setdefault(experiment.parameters[parameter], [])
            group.append(experiment.metrics[metric])
    return [
        Point(value, len(group), statistics.fmean(group), min(group), max(group))
        for value, group in sorted(groups.items(), key=lambda item: _order(item[0]))
    ]


def _order(value: Value) -> tuple[bool, float, str]:
    """Numbers by size, then words by the alphabet."""
    return (True, 0.0, value) if isinstance(value, str) else (False, value, "")


def sweep_csv(sweep: Sweep) -> str:
    """One line a metric and value."""
    return csv_text(sweep.columns, sweep.rows)
