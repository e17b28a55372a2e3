"""What the server may tell of FedHiP's heads: counts that the clients sent, never a sample."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from pathlib import Path

import numpy as np
from flwr.app import RecordDict

from pfl.artifacts.csv import DIGITS, csv_text
from pfl.artifacts.files import write_text
from pfl.errors import InputError
from pfl.evaluation.metrics import CLIENT_MEAN, EXTERNAL_TEST, HEADS, accuracy, summarize
from pfl.fedhip.families.table import Candidate
from pfl.fedhip.selection.candidates import candidates
from pfl.fedhip.selection.choice import scale_of
from pfl.flower.client.fedhip import METRICS, ServerAnswer
from pfl.flower.parameters import head_settings
from pfl.flower.server.exchange import Exchange
from pfl.flower.server.traffic import traffic_csv

OUTSIDE = tuple(f"{EXTERNAL_TEST}:{name}" for name in HEADS)
COUNTS = ("train", "test", "choice", "local-choice", EXTERNAL_TEST, *HEADS, *OUTSIDE)


@dataclass(frozen=True)
class Achieved:
    """One client's answer: samples, the candidates that its heads are, and correct predictions.

    Attributes:
        counts: by the names in ``COUNTS``.
    """

    counts: Mapping[str, int]


def parse_achieved(node: int, content: RecordDict) -> Achieved:
    """A client's counts.

    Raises:
        InputError: they are none.
    """
    del node  # every way to parse an answer has the same signature
    told = content.metric_records[METRICS]
    counts = {name: told[name] for name in COUNTS}
    whole = {name: value for name, value in counts.items() if isinstance(value, int)}
    if len(whole) < len(COUNTS) or not all(
        0 <= whole[name] <= whole[samples]
        for samples, names in (("test", HEADS), (EXTERNAL_TEST, OUTSIDE))
        for name in names
    ):
        raise InputError(f"it counts {counts}, which cannot be")
    return Achieved(whole)


def write_report(
    folder: Path, answer: ServerAnswer, achieved: Mapping[int, Achieved], net: Exchange
) -> None:
    """Write ``metrics.json``, ``per_client.csv`` and ``traffic.csv``."""
    settings, _ = head_settings(answer.section)
    every = candidates(settings, scale_of(answer.total.gram_matrix(), answer.total.samples))
    write_text(folder / "per_client.csv", _table(achieved, every))
    told = json.dumps(_metrics(achieved, every) | {"faults": net.faults}, indent=2)
    write_text(folder / "metrics.json", told + "\n")
    write_text(folder / "traffic.csv", traffic_csv(net.traffic))


def _table(achieved: Mapping[int, Achieved], every: tuple[Candidate, ...]) -> str:
    """One line a client, as the pipeline's, without what takes everybody's samples to know."""
    header = ["client", "train", "test", "family", "alpha", "beta", "rho", "local-beta", *HEADS]
    outside = OUTSIDE if _has_external(achieved) else ()
    header += outside
    rows = []
    for client, one in sorted(achieved.items()):
        counts, own = one.counts, every[one.counts["choice"]]
        parameters = [own.family.value, own.alpha, own.beta, own.rho]
        local = every[counts["local-choice"]].beta
        shares = [_accuracy(one, name) for name in HEADS]
        shares += [_accuracy(one, name, EXTERNAL_TEST) for name in outside]
        rows.append([client, counts["train"], counts["test"], *parameters, local, *shares])
    return csv_text(header, rows)


def _metrics(achieved: Mapping[int, Achieved], every: tuple[Candidate, ...]) -> dict[str, object]:
    """Few numbers for all clients together, by the names of the pipeline's report."""
    tests = np.array([one.counts["test"] for one in achieved.values()], np.int64)
    told: dict[str, object] = {}
    for name in HEADS:
        own = np.array([_accuracy(one, name) for one in achieved.values()])
        found = summarize(own, tests)
        values = {"mean": found.mean, "weighted": found.weighted, "std": found.std}
        values["worst-decile"] = found.worst_decile
        told[name] = {k: None if isnan(v) else round(v, DIGITS) for k, v in values.items()}
    if _has_external(achieved):
        told[EXTERNAL_TEST] = {
            name: {CLIENT_MEAN: round(_external_mean(achieved, name), DIGITS)} for name in HEADS
        }
    families = [every[one.counts["choice"]].family.value for one in achieved.values()]
    told["families"] = {name: families.count(name) for name in sorted(set(families))}
    told["clients"] = len(achieved)
    told["clients-without-test"] = int((tests == 0).sum())
    return told


def _has_external(achieved: Mapping[int, Achieved]) -> bool:
    """Whether some client has seen a group that takes no part, as in a simulation."""
    return any(one.counts[EXTERNAL_TEST] for one in achieved.values())


def _external_mean(achieved: Mapping[int, Achieved], name: str) -> float:
    """Mean over clients of the accuracy of each one's head on that group."""
    values = [_accuracy(one, f"{EXTERNAL_TEST}:{name}", EXTERNAL_TEST) for one in achieved.values()]
    return float(np.nanmean(values))


def _accuracy(one: Achieved, name: str, samples: str = "test") -> float:
    hits, tests = (np.array([one.counts[key]]) for key in (name, samples))
    return float(accuracy(hits, tests)[0])
