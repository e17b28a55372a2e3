"""What ``pfl results`` shows: the reports' numbers as tables for a terminal."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from pfl.artifacts.json import number_at
from pfl.cli.display import fits, table
from pfl.evaluation.metrics import (
    EXTERNAL_TEST,
    FEDHIP_PREFIX,
    GLOBAL_TEST,
    HEADS,
    LOCAL_TEST,
    RUN,
    WORST_DECILE,
    WORST_ECE,
    WORST_NLL,
)
from pfl.report.comparison_table import mean_and_deviation, measures_of
from pfl.report.differences import baseline_of, difference_rows
from pfl.report.measures import BY_KEY, OVER_CLIENTS, PROBABILITIES, SHOWN, SYMBOLS, Measure

OF_HEADS = (
    BY_KEY[LOCAL_TEST],
    *OVER_CLIENTS,
    BY_KEY[f"{LOCAL_TEST}:{WORST_DECILE}"],
    BY_KEY[GLOBAL_TEST],
)
EXTERNAL = tuple(measure for measure in SHOWN if measure.test == EXTERNAL_TEST)
WORST = tuple(measure for measure in PROBABILITIES if measure.numbers[0] in (WORST_NLL, WORST_ECE))
COLUMNS = 100  # of a terminal, up to which tables have measures of probabilities


def heads_table(path: Path, metrics: Mapping[str, Any]) -> Table:
    """Accuracy of FedHiP's heads, as ``path`` has them; NLL and ECE where there is room.

    Raises:
        InputError: a number is missing.
    """
    every = (*OF_HEADS, *(EXTERNAL if _has_external(metrics) else ()), *PROBABILITIES)
    values = {
        SYMBOLS[head]: {m: m.of(path, metrics, f"{FEDHIP_PREFIX}{head}") for m in every}
        for head in HEADS
    }
    unknown = [m for m in PROBABILITIES if all(of[m] is None for of in values.values())]

    def made(shown: Sequence[Measure]) -> Table:
        rows = [[name, *(m.unit(of[m]) for m in shown)] for name, of in values.items()]
        return table("FedHiP: accuracy in %", ["head", *(m.heading for m in shown)], rows)

    return _with_room(made, [measure for measure in every if measure not in unknown])


def _with_room(made: Callable[[Sequence[Measure]], Table], measures: Sequence[Measure]) -> Table:
    """The table of the measures, of probabilities as many as fit in beside the others.

    First their worst tenths give way, then their means.
    """
    for left_out in ((), WORST, PROBABILITIES):
        shown = made([measure for measure in measures if measure not in left_out])
        if fits(shown, COLUMNS):
            break
    return shown


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

    NLL and ECE are shown where there is room for them.

    Raises:
        InputError: a number is missing.
    """

    def made(shown: Sequence[Measure]) -> Table:
        return table(
            "All methods: accuracy in % after the last round, mean ± standard deviation over seeds",
            ["method", "seeds", *(measure.heading for measure in shown)],
            [
                [
                    method,
                    str(int(number_at(path, comparison, (method, "seeds")) or 0)),
                    *(mean_and_deviation(path, comparison, method, m)[1] for m in shown),
                ]
                for method in comparison
            ],
        )

    return _with_room(made, measures_of(comparison))


def difference_tables(path: Path, comparison: Mapping[str, Any]) -> list[Table]:
    """Each method against the baseline; nothing where the comparison has no differences.

    Raises:
        InputError: a number is missing.
    """
    baseline = baseline_of(path, comparison)
    if baseline is None:
        return []
    headings, rows = difference_rows(path, comparison, worst=False)
    # The local test's own interval is on the page: with it a line is longer than 80 characters.
    named = [[method, *row[1:]] for method, row in zip(comparison, rows, strict=True)]
    return [table(f"Against {baseline}, 95 % intervals", ["method", *headings[1:]], named)]
