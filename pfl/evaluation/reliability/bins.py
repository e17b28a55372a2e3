"""``reliability.csv``: all clients' samples by confidence, as a table, written and read again."""

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from pfl.artifacts.csv import csv_text
from pfl.artifacts.json import other_form
from pfl.errors import InputError
from pfl.evaluation.reliability.sums import BINS, Reliability

COLUMNS = ("method", "above", "up-to", "samples", "hits", "accuracy", "confidence")


@dataclass(frozen=True)
class Bins:
    """Sums over the samples in each bin of confidence; a commutative monoid as ``Reliability``.

    Attributes:
        count: samples n_b.
        confidence: sum of their confidences, n_b conf_b.
        hits: how many of them are predicted correctly, n_b acc_b.
    """

    count: Int[np.ndarray, " bins"]
    confidence: Float[np.ndarray, " bins"]
    hits: Int[np.ndarray, " bins"]

    def __add__(self, other: "Bins") -> "Bins":
        """Of the union of two disjoint sets of samples, or of two runs."""
        return Bins(
            self.count + other.count,
            self.confidence + other.confidence,
            self.hits + other.hits,
        )

    @staticmethod
    def of(sums: Reliability) -> "Bins":
        """All clients' samples together."""
        return Bins(sums.count.sum(0), sums.confidence.sum(0), sums.hits.sum(0))

    @property
    def ece(self) -> float:
        """Expected calibration error of all samples pooled; NaN without any."""
        samples = int(self.count.sum())
        gap = float(np.abs(self.hits - self.confidence).sum())
        return gap / samples if samples else math.nan


def bins_of(methods: Mapping[str, Reliability | None]) -> dict[str, Bins]:
    """All clients' samples of each method, of those that tell probabilities."""
    return {name: Bins.of(sums) for name, sums in methods.items() if sums is not None}


def bins_csv(bins: Mapping[str, Bins]) -> str:
    """A line for each method and bin, with the mean confidence of the bin's samples.

    Both means are empty cells where a bin has no samples.
    """
    return csv_text(COLUMNS, (row for name, of in bins.items() for row in _rows(name, of)))


def _rows(name: str, of: Bins) -> Iterator[list[object]]:
    for b in range(BINS):
        count, hits = int(of.count[b]), int(of.hits[b])
        means = [total / count if count else math.nan for total in (hits, float(of.confidence[b]))]
        yield [name, b / BINS, (b + 1) / BINS, count, hits, *means]


def read_bins(path: Path) -> dict[str, Bins]:
    """Inverse of :func:`bins_csv`, by method; confidences to the six digits that it has.

    Raises:
        InputError: the file is missing or of another form.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        count, hits = (np.array([int(row[name]) for row in rows]) for name in ("samples", "hits"))
        confidence = np.array([float(row["confidence"] or 0) for row in rows]) * count
    except OSError as error:
        raise InputError(f"{path} is missing: run `dvc repro`, which makes it.") from error
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise other_form(path, f"not one line of numbers a bin ({error!r})") from error
    names = [row["method"] for row in rows[::BINS]]
    if [row["method"] for row in rows] != [name for name in names for _ in range(BINS)]:
        raise other_form(path, f"not {BINS} lines a method")
    parts = (values.reshape(-1, BINS) for values in (count, confidence, hits))
    return {name: Bins(*of) for name, *of in zip(names, *parts, strict=True)}
