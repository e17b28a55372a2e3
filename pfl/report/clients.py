"""What each client gains, from FedHiP's ``per_client.csv``."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from pfl.artifacts.json import other_form
from pfl.errors import InputError
from pfl.evaluation.metrics import GLOBAL, HEADS, LOCAL, LOCAL_TEST, PERSONALIZED
from pfl.report.measures import UNKNOWN
from pfl.report.table import Table, plain

PART = "stack-"  # of columns: the weight of a family in the personalized head
COLUMN = {head: f"{LOCAL_TEST}:{head}" for head in HEADS}  # of its accuracy
Row = Mapping[str, str]


def read_clients_csv(path: Path) -> list[dict[str, str]]:
    """One row a client.

    Raises:
        InputError: the file is missing or of another form.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            _ = [float(row[name]) for name in COLUMN.values() if row[name]]
            _ = [int(row[name]) for name in ("client", "train", "test", "classes")]
            _ = [float(row[name] or 0) for name in row if name.startswith(PART) or name == "prior"]
            _ = row["prior"]
    except OSError as error:
        raise InputError(f"{path} is missing: run `dvc repro`, which makes it.") from error
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise other_form(path, f"not one line of numbers a client ({error!r})") from error
    return rows


def total(rows: Sequence[Row], column: str) -> int:
    """Sum of a column of counts."""
    return sum(int(row[column]) for row in rows)


def against(rows: Sequence[Row], other: str) -> str:
    """For how many clients P_k is better than another head, equal and worse, as a sentence."""
    own, others = COLUMN[PERSONALIZED], COLUMN[other]
    pairs = [(float(row[own]), float(row[others])) for row in rows if row[others]]
    better, worse = sum(x > y for x, y in pairs), sum(x < y for x, y in pairs)
    equal = len(pairs) - better - worse
    return (
        f"Against the {other} head the personalized one is better for {better}, equal for {equal} "
        f"and worse for {worse} of {len(pairs)} clients tested."
    )


def clients_table(rows: Sequence[Row]) -> Table:
    """One line a client: sizes, the head it chose, accuracies, and its gain over both others."""
    return plain(
        "Accuracy in % on each client's own test samples; prior: the power of its class prior in "
        "the personalized head; gain: of that over the better of the local and the global head, in "
        "points.",
        ["client", "training", "test", "classes", "weight of families", "prior", *HEADS, "gain"],
        [
            [row["client"], row["train"], row["test"], row["classes"], _choice(row),
             _two(row["prior"]), *(_percent(row[name]) for name in COLUMN.values()), _gain(row)]
            for row in rows
        ],
        folded=f"Every client: a table of {len(rows)} lines",
    )  # fmt: skip


def _choice(row: Row) -> str:
    """The families that a personalized head is the sum of; a client that left has none."""
    if not row["prior"]:
        return "left"
    parts = {name.removeprefix(PART): row[name] for name in row if name.startswith(PART)}
    weights = {family: float(text) for family, text in parts.items() if text and float(text) > 0}
    if len(weights) == 1:
        return next(iter(weights))
    ordered = sorted(weights.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{family} {weight:.2f}" for family, weight in ordered)


def _two(text: str) -> str:
    return f"{float(text):.2f}" if text else UNKNOWN


def _percent(text: str) -> str:
    return f"{100 * float(text):.1f}" if text else UNKNOWN


def _gain(row: Row) -> str:
    if not row[COLUMN[PERSONALIZED]]:
        return UNKNOWN
    own, local, shared = (float(row[COLUMN[head]]) for head in (PERSONALIZED, LOCAL, GLOBAL))
    gain = own - max(local, shared)
    return f"{100 * gain:+.1f}" if gain else "0.0"
