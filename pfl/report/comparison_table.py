"""The table of all methods that have run, the best of each test marked."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pfl.artifacts.json import number_at
from pfl.evaluation.metrics import FEDHIP_PREFIX, UPLOAD_BYTES
from pfl.report.measures import SHOWN, SYMBOLS, Measure
from pfl.report.table import Cell, Table

UNMARKED = {UPLOAD_BYTES}  # nothing sent is no merit of a method that shares nothing


def comparison_table(path: Path, comparison: Mapping[str, Any]) -> Table:
    """All methods side by side, as ``path`` has them; the best mean of each test is marked.

    Equal to the digits shown is equally good.

    Raises:
        InputError: a number is missing or of another form.
    """
    shown = measures_of(comparison)
    columns = [_column(path, comparison, measure) for measure in shown]
    seeds = [Cell(f"{number_at(path, comparison, (row, 'seeds')) or 0:.0f}") for row in comparison]
    heads = [Cell(label(row)) for row in comparison]
    return Table(
        "Accuracy in % after the last round, mean ± standard deviation over seeds. Best in bold.",
        ["method", "seeds", *(measure.heading for measure in shown)],
        list(zip(heads, seeds, *columns, strict=True)),
    )


def measures_of(comparison: Mapping[str, Any]) -> list[Measure]:
    """The measures that some method has, in the order in which they are shown."""
    rows = [row for row in comparison.values() if isinstance(row, dict)]
    return [measure for measure in SHOWN if any(measure.key in row for row in rows)]


def label(method: str) -> str:
    """The name of a method for a reader: FedHiP's heads with their letters."""
    kind = method.removeprefix(FEDHIP_PREFIX)
    if kind == method or kind not in SYMBOLS:
        return method
    return f"FedHiP, {SYMBOLS[kind].replace('_k', 'ₖ')}"


def mean_and_deviation(
    path: Path, comparison: Mapping[str, Any], method: str, measure: Measure
) -> tuple[float | None, str]:
    """The mean over seeds of a measure of a method, and the text of mean ± deviation.

    Raises:
        InputError: a number is missing or of another form.
    """
    mean, std = (
        number_at(path, comparison, (method, measure.key, kind)) for kind in ("mean", "std")
    )
    spread = "" if std is None else f" ± {measure.unit(std)}"
    return mean, f"{measure.unit(mean)}{spread}"


def _column(path: Path, comparison: Mapping[str, Any], measure: Measure) -> Sequence[Cell]:
    """One measure of every method."""
    values = [mean_and_deviation(path, comparison, method, measure) for method in comparison]
    known = [mean for mean, _ in values if mean is not None and measure.key not in UNMARKED]
    best = measure.unit(measure.best(known)) if known else None
    return [Cell(text, mean is not None and measure.unit(mean) == best) for mean, text in values]
