"""What is shown of a method: where its reports have it, what it is called, in which unit it is.

One table for the comparison, the page, ``pfl results``, ``pfl compare`` and ``pfl sweep``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfl.artifacts.json import number_at
from pfl.evaluation.metrics import (
    ECE,
    EQUATION_14,
    EXTERNAL_TEST,
    GLOBAL,
    GLOBAL_PRIOR,
    GLOBAL_TEST,
    GLOBAL_TEST_OWN_PRIOR,
    LOCAL,
    LOCAL_TEST,
    MEAN,
    MEAN_LOG_PROBABILITY,
    MEAN_PROBABILITY,
    MEAN_SCORE,
    NEW_TEST,
    NLL,
    PERSONALIZED,
    STD,
    UPLOAD_BYTES,
    VALIDATION,
    VOTE,
    WEIGHT_AVERAGE,
    WEIGHTED,
    WORST_DECILE,
    WORST_ECE,
    WORST_NLL,
)

UNKNOWN = "–"
SYMBOLS = {
    LOCAL: "local L_k",
    GLOBAL: "global G",
    GLOBAL_PRIOR: "G with prior",
    EQUATION_14: "P_k of (14)",
    PERSONALIZED: "personalized",
}
ENSEMBLE = (MEAN_PROBABILITY, MEAN_SCORE)  # the first kind: of models, of linear heads


def percent(share: float | None) -> str:
    """A share of 0 … 1 in percent."""
    return UNKNOWN if share is None else f"{100 * share:.1f}"


def mebibytes(count: float | None) -> str:
    """A number of bytes in MiB."""
    return UNKNOWN if count is None else f"{count / 2**20:.1f}"


def nats(value: float | None) -> str:
    """A negative log-likelihood."""
    return UNKNOWN if value is None else f"{value:.3f}"


@dataclass(frozen=True)
class Measure:
    """One number of a method.

    Attributes:
        key: its name in the comparison.
        test: where ``metrics.json`` has it, below the method.
        numbers: which of the test's numbers it is: the first of these that there is; empty where
            ``test`` is a number itself.
        heading: of its column; empty where it is not shown.
        note: what it is.
        unit: writes a value.
        best: the better of several values: the largest of accuracies, the least of losses.
    """

    key: str
    test: str
    numbers: tuple[str, ...]
    heading: str = ""
    note: str = ""
    unit: Callable[[float | None], str] = percent
    best: Callable[[Iterable[float]], float] = max

    def of(self, path: Path, metrics: Mapping[str, Any], method: str) -> float | None:
        """Its value for a method in a ``metrics.json``, which is at ``path``.

        None if it is not known: the test was not made, or has other numbers instead, as linear
        heads have other ensembles than models.

        Raises:
            InputError: the file is of another form.
        """
        tests = metrics.get(method)
        made = tests.get(self.test) if isinstance(tests, dict) else None
        there = [name for name in self.numbers if isinstance(made, dict) and name in made]
        if isinstance(made, dict) and made and not there:
            return None
        return number_at(path, metrics, (method, self.test, *(there or self.numbers)[:1]))


# Of the probabilities in the local test: shown where there is room.
PROBABILITIES = (
    Measure(
        f"{LOCAL_TEST}:{NLL}", LOCAL_TEST, (NLL,), "NLL",
        "negative log-likelihood of the true classes in the local test, nats a sample, mean over "
        "clients: the less the better",
        nats, min,
    ),
    Measure(
        f"{LOCAL_TEST}:{WORST_NLL}", LOCAL_TEST, (WORST_NLL,), "worst NLL",
        "its mean over the tenth of the clients with the largest", nats, min,
    ),
    Measure(
        f"{LOCAL_TEST}:{ECE}", LOCAL_TEST, (ECE,), "ECE",
        "expected calibration error of each client's model in the local test, in %, mean over "
        "clients: how far confidence is from accuracy, the less the better",
        percent, min,
    ),
    Measure(
        f"{LOCAL_TEST}:{WORST_ECE}", LOCAL_TEST, (WORST_ECE,), "worst ECE",
        "its mean over the tenth of the clients with the largest", percent, min,
    ),
)  # fmt: skip
MEASURES = (
    Measure(
        LOCAL_TEST, LOCAL_TEST, (MEAN,), "local test",
        "each client's model on its own test samples, mean over clients",
    ),
    Measure(
        f"{LOCAL_TEST}:{WORST_DECILE}", LOCAL_TEST, (WORST_DECILE,), "worst tenth",
        "mean of the tenth of the clients with the lowest accuracy in the local test",
    ),
    Measure(
        GLOBAL_TEST, GLOBAL_TEST, (MEAN,), "global test",
        "each client's model on everybody's test samples, with even shares of all classes where "
        "it counts the client's prior",
    ),
    Measure(GLOBAL_TEST_OWN_PRIOR, GLOBAL_TEST_OWN_PRIOR, (MEAN,)),
    Measure(
        NEW_TEST, NEW_TEST, ENSEMBLE, "new test",
        "the ensemble of all models on everybody's test samples, by mean probability; of FedHiP's "
        "heads, whose scores are none, by mean score",
    ),
    *(
        Measure(f"{NEW_TEST}:{kind}", NEW_TEST, (kind,))
        for kind in (MEAN_LOG_PROBABILITY, VOTE, WEIGHT_AVERAGE)
    ),
    Measure(
        EXTERNAL_TEST, EXTERNAL_TEST, ENSEMBLE, "external test",
        "the same ensemble on the group that takes no part",
    ),
    Measure(
        f"{EXTERNAL_TEST}:client-mean", EXTERNAL_TEST, (MEAN,), "each on it",
        "each client's model on that group, mean over clients",
    ),
    Measure(VALIDATION, VALIDATION, (MEAN,)),
    *PROBABILITIES,
    Measure(
        UPLOAD_BYTES, UPLOAD_BYTES, (), "upload, MiB",
        "what all clients sent in all rounds together; FedHiP has one, and its local heads none",
        mebibytes,
    ),
)  # fmt: skip
BY_KEY = {measure.key: measure for measure in MEASURES}
SHOWN = tuple(measure for measure in MEASURES if measure.heading)

# Of one method's clients, where it is looked at alone.
OVER_CLIENTS = (
    Measure(f"{LOCAL_TEST}:{WEIGHTED}", LOCAL_TEST, (WEIGHTED,), "weighted"),
    Measure(f"{LOCAL_TEST}:{STD}", LOCAL_TEST, (STD,), "std"),
)
