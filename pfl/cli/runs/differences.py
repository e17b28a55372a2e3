"""What differs between two runs: parameters, accuracies, and how each client fares."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml.error import YAMLError

from pfl.artifacts.project import load_yaml
from pfl.cli.display import Change, Content, Points, Share
from pfl.cli.runs.revisions import Reader
from pfl.errors import InputError
from pfl.evaluation.metrics import FEDHIP_PREFIX, HEADS, LOCAL_TEST, PERSONALIZED, UPLOAD_BYTES
from pfl.report.measures import OVER_CLIENTS, SHOWN, Measure, percent

METRICS = "reports/fedhip/metrics.json"
CLIENTS = "reports/fedhip/per_client.csv"
COMPARISON = "reports/comparison/comparison.json"
OF_TESTS = tuple(measure for measure in SHOWN if measure.key != UPLOAD_BYTES)


def differences(first: Reader, second: Reader, most: int) -> Content:
    """Parameters that differ, accuracies side by side, and the clients that changed most.

    Of the clients that gained, and of those that lost, at most ``most`` are listed.

    Raises:
        InputError: a report is missing or of another form.
    """
    changed = _clients(first, second)
    return {
        "parameters": _parameters(first, second),
        "accuracy": list(_accuracies(first, second)),
        "clients": _summary(changed),
        "gained-most": [row for row in reversed(changed) if row["difference"] > 0][:most],
        "lost-most": [row for row in changed if row["difference"] < 0][:most],
    }


def _parameters(first: Reader, second: Reader) -> list[dict[str, object]]:
    """Rows of the parameters that made the reports and differ; none where one has no such."""
    old, new = parameters(first), parameters(second)
    return [
        {"parameter": name, "first": _shown(old.get(name)), "second": _shown(new.get(name))}
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def _shown(value: object) -> object:
    return value if isinstance(value, str | int | float | None) else json.dumps(value)


def parameters(read: Reader) -> dict[str, object]:
    """Parameters by dotted name: those of dvc.lock, which made the results; else params.yaml."""
    try:
        text, of_stages = read("dvc.lock"), True
    except InputError:
        text, of_stages = read("params.yaml"), False
    try:
        content = load_yaml(text)
        sections = [content]
        if of_stages:
            # The page names all sections too, to show them, and may be older than the results.
            stages = [facts for name, facts in content["stages"].items() if name != "report"]
            sections = [facts.get("params", {}).get("params.yaml", {}) for facts in stages]
        return {name: value for section in sections for name, value in _dotted(section)}
    except (YAMLError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"A {'dvc.lock' if of_stages else 'params.yaml'} is of another form ({error!r}): "
            "restore it."
        ) from error


def _dotted(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _accuracies(first: Reader, second: Reader) -> Iterator[dict[str, object]]:
    """FedHiP's heads, then the trained methods that both runs have, where both compared them."""
    old, new = (_json(read, METRICS) for read in (first, second))
    for method in (f"{FEDHIP_PREFIX}{head}" for head in HEADS):
        for measure in (*OF_TESTS, *OVER_CLIENTS):
            values = (measure.of(Path(METRICS), run, method) for run in (old, new))
            yield from _compared(method, measure, *values)
    try:
        old, new = (_json(read, COMPARISON) for read in (first, second))
    except InputError:
        return
    for method in old:
        if method in new and not method.startswith(FEDHIP_PREFIX):
            for measure in OF_TESTS:
                values = (run[method].get(measure.key, {}).get("mean") for run in (old, new))
                yield from _compared(method, measure, *values)


def _json(read: Reader, path: str) -> dict[str, Any]:
    text = read(path)
    try:
        values = json.loads(text)
    except ValueError as error:
        raise InputError(f"A {path} is damaged ({error}): run `dvc repro`.") from error
    if not isinstance(values, dict):
        raise InputError(f"A {path} holds no values by name: run `dvc repro`.")
    return values


def _compared(
    model: str, measure: Measure, old: float | None, new: float | None
) -> Iterator[dict[str, object]]:
    """One row, or none where neither run knows the number."""
    value, change = (Share, Points) if measure.unit is percent else (float, Change)
    if old is not None or new is not None:
        yield {
            "model": model,
            "measure": measure.key,
            "first": None if old is None else value(old),
            "second": None if new is None else value(new),
            "difference": None if old is None or new is None else change(new - old),
        }


def _clients(first: Reader, second: Reader) -> list[dict[str, Any]]:
    """Clients of both runs with their personalized accuracies, the greatest loss first."""
    old, new = (_accuracy_by_client(read) for read in (first, second))
    rows = [
        {
            "client": int(client),
            "first": Share(old[client]),
            "second": Share(new[client]),
            "difference": Points(new[client] - old[client]),
        }
        for client in old
        if client in new
    ]
    return sorted(rows, key=lambda row: row["difference"])


def _accuracy_by_client(read: Reader) -> dict[str, float]:
    """Accuracy of the personalized head by client; clients without test samples have none."""
    text, column = read(CLIENTS), f"{LOCAL_TEST}:{PERSONALIZED}"
    try:
        rows = csv.DictReader(io.StringIO(text))
        return {row["client"]: float(row[column]) for row in rows if row[column]}
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(
            f"A {CLIENTS} is of another form ({error!r}): run `dvc repro evaluate`."
        ) from error


def _summary(changed: list[dict[str, Any]]) -> dict[str, object]:
    """Clients by number: they are the same only if the partition is."""
    gains = [row["difference"] for row in changed]
    return {
        "compared": len(gains),
        "gained": sum(gain > 0 for gain in gains),
        "lost": sum(gain < 0 for gain in gains),
        "unchanged": sum(gain == 0 for gain in gains),
    }
