"""The files of a sweep: table, figure, and the report with the sweep in it."""

from pathlib import Path

from pfl.artifacts.files import write_text
from pfl.cli.sweep.figure import draw_sweep
from pfl.cli.sweep.series import Sweep, sweep_csv
from pfl.report.figure import load_figure
from pfl.report.measures import percent
from pfl.report.page import Section, insert
from pfl.report.table import Table, plain


def write_sweep(sweep: Sweep, folder: Path, report: Path) -> None:
    """Write ``sweep.csv``, ``sweep.png`` and ``.svg``, and ``index.html`` if there is a report.

    The report's page stays as it is.

    Raises:
        InputError: the report is not as this program writes it.
    """
    write_text(folder / "sweep.csv", sweep_csv(sweep))
    draw_sweep(folder / "sweep.png", sweep)
    if report.exists():
        page = report.read_text(encoding="utf-8")
        write_text(folder / "index.html", insert(page, section(sweep, folder / "sweep.svg")))


def section(sweep: Sweep, drawing: Path) -> Section:
    """The sweep as a part of the report."""
    experiments = max(sum(p.experiments for p in points) for points in sweep.series.values())
    also = f" They also differ in {', '.join(sweep.others)}." if sweep.others else ""
    text = (
        f"{experiments} experiments that DVC keeps beside this one, by {sweep.parameter}.{also} "
        "Means over experiments with the same value."
    )
    alt = f"Mean accuracy against {sweep.parameter}: " + "; ".join(
        f"{metric} {points[0].mean:.1%} to {points[-1].mean:.1%}"
        for metric, points in sweep.series.items()
        if points
    )
    caption = "Accuracy against the parameter; bars span the experiments with one value."
    parts = (load_figure(drawing, alt, caption), _table(sweep))
    return Section("sweep", f"Accuracy against {sweep.parameter}", [text], parts)


def _table(sweep: Sweep) -> Table:
    rows = [
        [metric, value, str(experiments), *map(percent, accuracies)]
        for metric, value, experiments, *accuracies in sweep.rows
    ]
    return plain("Accuracy in % over experiments.", sweep.columns, rows, folded="The numbers")
