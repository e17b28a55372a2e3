"""The page's section on all methods: their table, their differences, and figures of both."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pfl.artifacts.json import number_at
from pfl.evaluation.metrics import LOCAL_TEST
from pfl.report.comparison_table import comparison_table, difference_table, label, measures_of
from pfl.report.figure import Figure, load_figure
from pfl.report.measures import BY_KEY
from pfl.report.page import Notes, Section


def methods_section(folder: Path, compared: Mapping[str, Any]) -> Section:
    """All methods side by side, from the comparison's folder and what its JSON file holds.

    Raises:
        InputError: a file is missing or of another form.
    """
    path, unit = folder / "comparison.json", BY_KEY[LOCAL_TEST].unit
    means = "; ".join(
        f"{label(method)} {unit(number_at(path, compared, (method, LOCAL_TEST, 'mean')))} %"
        for method in compared
    )
    figure = load_figure(
        folder / "comparison.svg",
        f"One point a method, one panel a test. Local test: {means}.",
        "The same as points; bars are standard deviations over seeds where a method ran more "
        "than once.",
    )
    notes = Notes([f"{measure.heading}: {measure.note}" for measure in measures_of(compared)])
    parts = (
        comparison_table(path, compared), notes, figure,
        *difference_table(path, compared), *_ranks(folder / "ranks.svg"),
    )  # fmt: skip
    return Section("methods", "All methods side by side", [], parts)


def _ranks(drawn: Path) -> list[Figure]:
    """Mean ranks over clients; nothing where no client has all methods."""
    if not drawn.exists():
        return []
    return [
        load_figure(
            drawn,
            "One row a method, the best mean rank over clients above, with bars of half a critical "
            "difference.",
            "Mean ranks in the local test, over clients. Two methods differ where their bars do "
            "not overlap; filled points, and the shaded band, cannot be told apart from the best. "
            "Clients share one training and are not quite independent: read it beside the "
            "intervals.",
        )
    ]
