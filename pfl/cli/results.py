"""What ``pfl results`` shows: the reports' numbers as tables for a terminal."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from pfl.cli.display import table
from pfl.evaluation.metrics import (
    CLIENT_MEAN,
    EXTERNAL_EACH,
    EXTERNAL_TEST,
    GLOBAL_TEST,
    HEADS,
    MEAN_SCORE,
)
from pfl.report.json import number_at
from pfl.report.measures import COMPARED, SYMBOLS, percent

# Heading and place of what is shown of each head, and of what only an external test gives.
COLUMNS: dict[str, tuple[str, ...]] = {
    "mean": ("mean",),
    "weighted": ("weighted",),
    "std": ("std",),
    "worst decile": ("worst-decile",),
    GLOBAL_TEST: (GLOBAL_TEST,),
}
EXTERNAL_COLUMNS: dict[str, tuple[str, ...]] = {
    EXTERNAL_TEST: (EXTERNAL_TEST, MEAN_SCORE),
    EXTERNAL_EACH: (EXTERNAL_TEST, CLIENT_MEAN),
}


def heads_table(path: Path, metrics: Mapping[str, Any]) -> Table:
    """Accuracy of FedHiP's heads, as ``path`` has them.

    Raises:
        InputError: a number is missing.
    """
    columns = COLUMNS | (EXTERNAL_COLUMNS if _has_external(metrics) else {})
    rows = [
        [
            SYMBOLS[head],
            *(percent(number_at(path, metrics, (head, *place))) for place in columns.values()),
        ]
        for head in HEADS
    ]
    return table("FedHiP: accuracy in %", ["head", *columns], rows)


def _has_external(metrics: Mapping[str, Any]) -> bool:
    """Whether a group takes no part."""
    return any(metrics[head].get(EXTERNAL_TEST) for head in HEADS if head in metrics)


def heads_note(path: Path, metrics: Mapping[str, Any]) -> str:
    """What the columns of :func:`heads_table` are.

    Raises:
        InputError: a number is missing.
    """
    clients, missing, left = (
        _count(path, metrics, (f"clients{part}",)) for part in ("", "-without-test", "-left-out")
    )
    note = (
        f"{clients} clients. {GLOBAL_TEST}: accuracy of their heads on all test samples, mean over "
        "all clients; other columns: on the clients' own test samples."
    )
    if _has_external(metrics):
        note += (
            f" {EXTERNAL_TEST}: on the group that takes no part, all heads together by mean score; "
            f"{EXTERNAL_EACH}: each client's head there, mean over all clients."
        )
    if missing:
        holders = "1 client holds" if missing == 1 else f"{missing} clients hold"
        note = f"{note} {holders} none: in {GLOBAL_TEST} only."
    return f"{note} Left out, and in no number: {left}." if left else note


def comparison_table(path: Path, comparison: Mapping[str, Any]) -> Table:
    """All methods side by side, as ``path`` has them; measures that no method has are left out.

    Raises:
        InputError: a number is missing.
    """
    rows = [row for row in comparison.values() if isinstance(row, dict)]
    names = [name for name in COMPARED if any(name in row for row in rows)]

    def entry(method: str, name: str) -> str:
        mean, std = (number_at(path, comparison, (method, name, kind)) for kind in ("mean", "std"))
        show = COMPARED[name][1]
        return show(mean) if std is None else f"{show(mean)} ± {show(std)}"

    return table(
        "All methods: accuracy in % after the last round, mean ± standard deviation over seeds",
        ["method", "seeds", *(COMPARED[name][0] for name in names)],
        [
            [
                method,
                str(_count(path, comparison, (method, "seeds"))),
                *(entry(method, name) for name in names),
            ]
            for method in comparison
        ],
    )


def _count(path: Path, found: Mapping[str, Any], place: Sequence[str]) -> int:
    return int(number_at(path, found, place) or 0)
