"""What ``pfl results`` shows: the reports' numbers as tables for a terminal."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from pfl.artifacts.json import number_at
from pfl.cli.display import table
from pfl.evaluation.metrics import (
    EXTERNAL_TEST,
    FEDHIP_PREFIX,
    GLOBAL_TEST,
    HEADS,
    LOCAL_TEST,
    RUN,
    WORST_DECILE,
)
from pfl.report.comparison_table import mean_and_deviation, measures_of
from pfl.report.measures import BY_KEY, OVER_CLIENTS, SHOWN, SYMBOLS

OF_HEADS = (
    BY_KEY[LOCAL_TEST],
    *OVER_CLIENTS,
    BY_KEY[f"{LOCAL_TEST}:{WORST_DECILE}"],
    BY_KEY[GLOBAL_TEST],
)
EXTERNAL = tuple(measure for measure in SHOWN if measure.test == EXTERNAL_TEST)


def heads_table(path: Path, metrics: Mapping[str, Any]) -> Table:
    """Accuracy of FedHiP's heads, as ``path`` has them.

    Raises:
        InputError: a number is missing.
    """
    shown = (*OF_HEADS, *(EXTERNAL if _has_external(metrics) else ()))
    rows = [
        [SYMBOLS[head], *(m.unit(m.of(path, metrics, f"{FEDHIP_PREFIX}{head}")) for m in shown)]
        for head in HEADS
    ]
    return table("FedHiP: accuracy in %", ["head", *(m.heading for m in shown)], rows)


def _has_external(metrics: Mapping[str, Any]) -> bool:
    """Whether a group takes no part."""
    methods = [of for name, of in metrics.items() if name != RUN and isinstance(of, dict)]
    return any(of.get(EXTERNAL_TEST) for of in methods)


def heads_note(path: Path, metrics: Mapping[str, Any]) -> str:
    """What the columns of :func:`heads_table` are.

    Raises:
        InputError: a number is missing.
    """
    clients, missing, left = (
        int(number_at(path, metrics, (RUN, f"clients{part}")) or 0)
        for part in ("", "-without-test", "-left-out")
    )
    of_all, outside, each = BY_KEY[GLOBAL_TEST].heading, *(measure.heading for measure in EXTERNAL)
    note = (
        f"{clients} clients. {of_all}: accuracy of their heads on all test samples, mean over all "
        "clients; other columns: on the clients' own test samples."
    )
    if _has_external(metrics):
        note += (
            f" {outside}: on the group that takes no part, all heads together by mean score; "
            f"{each}: each client's head there, mean over all clients."
        )
    if missing:
        holders = "1 client holds" if missing == 1 else f"{missing} clients hold"
        note = f"{note} {holders} none: in {of_all} only."
    return f"{note} Left out, and in no number: {left}." if left else note


def comparison_table(path: Path, comparison: Mapping[str, Any]) -> Table:
    """All methods side by side, as ``path`` has them; measures that no method has are left out.

    Raises:
        InputError: a number is missing.
    """
    shown = measures_of(comparison)
    return table(
        "All methods: accuracy in % after the last round, mean ± standard deviation over seeds",
        ["method", "seeds", *(measure.heading for measure in shown)],
        [
            [
                method,
                str(int(number_at(path, comparison, (method, "seeds")) or 0)),
                *(mean_and_deviation(path, comparison, method, measure)[1] for measure in shown),
            ]
            for method in comparison
        ],
    )
