"""The files of a sweep: table, figure, and the report with the sweep in it."""

from pathlib import Path

from pfl.artifacts.files import write_text
from pfl.cli.sweep.figure import draw_sweep
from pfl.cli.sweep.series import Sweep, sweep_csv
from pfl.report.figure import load_figure
from pfl.report.measures import percent
from pfl.report.page import Section, insert
from pfl.report.table import Table, plain


def write_sweep(found: Sweep, folder: Path, report: Path) -> None:
    """Write ``sweep.csv``, ``sweep.png`` and ``.svg``, and ``index.html`` if there is a report.

    Args:
        found: what experiments say.
        folder: where to.
        report: the report's page, which stays as it is.

    Raises:
        InputError: the report is not as this program writes it.
    """
    write_text(folder / "sweep.csv", sweep_csv(found))
    draw_sweep(folder / "sweep.png", found)
    if report.exists():
        page = report.read_text(encoding="utf-8")
        write_text(folder / "index.html", insert(page, section(found, folder / "sweep.svg")))


def section(found: Sweep, drawing: Path) -> Section:
    """The sweep as a part of the report."""
    experiments = max(
        sum(point.experiments for point in points) for points in found.series.values()
    )
    also = f" They also differ in {', '.join(found.others)}." if found.others else ""
    text = (
        f"{experiments} experiments that DVC keeps beside this one, by {found.parameter}.{also} "
        "Means over experiments with the same value."
    )
    alt = f"Mean accuracy against {found.parameter}: " + "; ".join(
        f"{metric} {points[0].mean:.1%} to {points[-1].mean:.1%}"
        for metric, points in found.series.items()
        if points
    )
    caption = "Accuracy against the parameter; bars span the experiments with one value."
    parts = (load_figure(drawing, alt, caption), _table(found))
    return Section("sweep", f"Accuracy against {found.parameter}", [text], parts)


def _table(found: Sweep) -> Table:
    rows = [
        [metric, f"{p.value:g}" if not isinstance(p.value, str) else p.value, str(p.experiments),
         *map(percent, (p.mean, p.low, p.high))]
        for metric, points in found.series.items()
        for p in points
    ]  # fmt: skip
    columns = ["metric", found.parameter, "experiments", "mean", "least", "greatest"]
    return plain("Accuracy in % over experiments.", columns, rows, folded="The numbers")
