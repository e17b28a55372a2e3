"""The table of all methods that have run, the best of each test marked."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pfl.artifacts.json import number_at
from pfl.evaluation.metrics import FEDHIP_PREFIX, UPLOAD_BYTES
from pfl.report.differences import BOLD, NOTE, baseline_of, difference_rows
from pfl.report.measures import SHOWN, SYMBOLS, Measure
from pfl.report.page import Notes
from pfl.report.table import Cell, Table, plain

UNMARKED = {UPLOAD_BYTES}  # nothing sent is no merit of a method that shares nothing


def comparison_table(path: Path, comparison: Mapping[str, Any]) -> Table:
    """All methods side by side, as ``path`` has them; the best of each test is marked.

    In the local test these are all that the comparison cannot tell apart from the best; in other
    tests, of which no intervals are known, the best mean, and what is equal to the digits shown.

    Raises:
        InputError: a number is missing or of another form.
    """
    shown = measures_of(comparison)
    columns = [_column(path, comparison, measure) for measure in shown]
    seeds = [Cell(f"{number_at(path, comparison, (row, 'seeds')) or 0:.0f}") for row in comparison]
    heads = [Cell(label(row)) for row in comparison]
    return Table(
        "Accuracy in % after the last round, mean ± standard deviation over seeds. In bold: in the "
        "local test the best and all that clients do not tell apart from it; else the best mean.",
        ["method", "seeds", *(measure.heading for measure in shown)],
        list(zip(heads, seeds, *columns, strict=True)),
    )


def difference_table(path: Path, comparison: Mapping[str, Any]) -> list[Table | Notes]:
    """Each method against the baseline, client by client, and what the columns are.

    Nothing where the comparison has no differences.

    Raises:
        InputError: a number is missing or of another form.
    """
    baseline = baseline_of(path, comparison)
    if baseline is None:
        return []
    headings, rows = difference_rows(path, comparison, worst=True)
    named = [[label(name), *row] for name, row in zip(comparison, rows, strict=True)]
    title = f"Is it a difference? Every method against {label(baseline)}, client by client."
    return [plain(title, ["method", *headings], named), Notes([NOTE])]


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
    marked = [_marked(comparison, method, measure) for method in comparison]
    if None in marked:
        marked = [mean is not None and measure.unit(mean) == best for mean, _ in values]
    return [Cell(text, bool(bold)) for (_, text), bold in zip(values, marked, strict=True)]


def _marked(comparison: Mapping[str, Any], method: str, measure: Measure) -> bool | None:
    """Whether the comparison has the method in bold; None where it does not say."""
    bold = comparison[method][measure.key].get(BOLD)
    return bold if isinstance(bold, bool) else None
