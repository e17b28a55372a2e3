"""The table of all methods that have run, the best of each test marked."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pfl.evaluation.metrics import (
    EXTERNAL_EACH,
    EXTERNAL_TEST,
    GLOBAL_TEST,
    LOCAL_TEST,
    NEW_TEST,
    UPLOAD_BYTES,
)
from pfl.report.json import number_at
from pfl.report.measures import COMPARED, SYMBOLS
from pfl.report.table import Cell, Table

WORST = f"{LOCAL_TEST}:worst-decile"
# Measures in order: heading, and the name under which COMPARED says how the number is written.
COLUMNS = {
    LOCAL_TEST: ("local test", LOCAL_TEST),
    WORST: ("its worst tenth", LOCAL_TEST),
    GLOBAL_TEST: ("global test", GLOBAL_TEST),
    NEW_TEST: ("new test", NEW_TEST),
    EXTERNAL_TEST: ("external test", NEW_TEST),
    EXTERNAL_EACH: ("each on it", NEW_TEST),
    UPLOAD_BYTES: ("upload, MiB", UPLOAD_BYTES),
}
UNMARKED = {UPLOAD_BYTES}  # nothing sent is no merit of a method that shares nothing
NOTE = {
    LOCAL_TEST: "local test: each client's model on its own test samples, mean over clients",
    WORST: "its worst tenth: mean of the tenth of the clients with the lowest accuracy",
    GLOBAL_TEST: "global test: each client's model on everybody's test samples",
    NEW_TEST: "new test: the ensemble of all models on everybody's test samples, by mean "
    "probability; of FedHiP's heads, whose scores are none, by mean score",
    EXTERNAL_TEST: "external test: the same ensemble on the group that takes no part",
    EXTERNAL_EACH: "each on it: each client's model on that group, mean over clients",
    UPLOAD_BYTES: "upload: what all clients sent in all rounds together",
}


def comparison_table(path: Path, comparison: Mapping[str, Any]) -> Table:
    """All methods side by side, as ``path`` has them; the best mean of each test is marked.

    Equal to the digits shown is equally good.

    Raises:
        InputError: a number is missing or of another form.
    """
    names = measures(comparison)
    columns = [_column(path, comparison, name) for name in names]
    seeds = [Cell(f"{number_at(path, comparison, (row, 'seeds')) or 0:.0f}") for row in comparison]
    heads = [Cell(label(row)) for row in comparison]
    return Table(
        "Accuracy in % after the last round, mean ± standard deviation over seeds. Best in bold.",
        ["method", "seeds", *(COLUMNS[name][0] for name in names)],
        list(zip(heads, seeds, *columns, strict=True)),
    )


def measures(comparison: Mapping[str, Any]) -> list[str]:
    """The measures that some method has, in the order in which they are shown."""
    return [name for name in COLUMNS if any(name in row for row in comparison.values())]


def label(method: str) -> str:
    """The name of a method for a reader: FedHiP's heads with their letters."""
    kind = method.removeprefix("fedhip:")
    if kind == method or kind not in SYMBOLS:
        return method
    return f"FedHiP, {SYMBOLS[kind].replace('_k', 'ₖ')}"


def _column(path: Path, comparison: Mapping[str, Any], name: str) -> Sequence[Cell]:
    """One measure of every method."""
    show = COMPARED[COLUMNS[name][1]][1]
    means = [number_at(path, comparison, (row, name, "mean")) for row in comparison]
    deviations = [number_at(path, comparison, (row, name, "std")) for row in comparison]
    most = max((mean for mean in means if mean is not None), default=math.nan)
    return [
        Cell(
            show(mean) if std is None else f"{show(mean)} ± {show(std)}",
            best=name not in UNMARKED and mean is not None and show(mean) == show(most),
        )
        for mean, std in zip(means, deviations, strict=True)
    ]
