"""What a method achieves on each test, and how every report tells it: one form for all methods.

``metrics.json``, of FedHiP, trained methods, heads by gradients and Flower's runs alike, is

    method → test → number,    method → upload-bytes,    run → facts of the run.

``local-test``, ``global-test`` and ``validation`` have the ``mean``, ``weighted``, ``std`` and
``worst-decile`` over clients of :func:`pfl.evaluation.metrics.summarize`; ``new-test`` has the
ensemble's accuracy in their place, by each way to form it (``vote`` and so on); ``external-test``
has both side by side. Where probabilities were told, as in ``local-test``, there are ``nll`` and
``ece`` of :mod:`pfl.evaluation.reliability.sums` too, means over clients, and ``worst-nll`` and
``worst-ece``, means over the tenth of the clients with the largest. A test that was not made is
null, and so is a number that is not known. All are of the models after the last round, never of the
best.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from pfl.artifacts.csv import DIGITS, csv_text
from pfl.evaluation.metrics import (
    ECE,
    NLL,
    RUN,
    TESTS,
    UPLOAD_BYTES,
    VALIDATION,
    WORST_ECE,
    WORST_NLL,
    summarize,
    summarize_losses,
)
from pfl.evaluation.reliability.sums import Reliability


@dataclass(frozen=True)
class Accuracies:
    """Accuracy on the samples of one test.

    Attributes:
        clients: of each client's model, NaN where it has none, or no such samples; empty where
            the ensemble alone is tested.
        samples: how many samples each client's model was tested on; None where it is not known.
        ensemble: of all models together, by the way to form the ensemble.
        reliability: of the probabilities of each client's model on the same samples; None where
            there are none, or nobody asked.
    """

    clients: Float[np.ndarray, " clients"] = field(default_factory=lambda: np.empty(0))
    samples: Int[np.ndarray, " clients"] | None = None
    ensemble: Mapping[str, float] = field(default_factory=dict)
    reliability: Reliability | None = None

    @property
    def nll(self) -> Float[np.ndarray, " clients"] | None:
        """Mean negative log-likelihood of each client's model, in nats."""
        return None if self.reliability is None else self.reliability.nll

    @property
    def ece(self) -> Float[np.ndarray, " clients"] | None:
        """Expected calibration error of each client's model."""
        return None if self.reliability is None else self.reliability.ece

    def summary(self) -> dict[str, float | None]:
        """Few numbers for all clients together, rounded, None where unknown."""
        of_clients = summarize(self.clients, self.samples) if len(self.clients) else {}
        return {
            name: None if math.isnan(value) else round(value, DIGITS)
            for name, value in {**of_clients, **self.ensemble, **self._of_probabilities()}.items()
        }

    def _of_probabilities(self) -> dict[str, float]:
        if self.reliability is None:
            return {}
        nll, ece = (summarize_losses(of) for of in (self.reliability.nll, self.reliability.ece))
        return {NLL: nll[0], WORST_NLL: nll[1], ECE: ece[0], WORST_ECE: ece[1]}


@dataclass(frozen=True)
class ClientAccuracies:
    """What one method achieves; None for a test that was not made.

    Attributes:
        local: each client's model on its own test samples.
        everybody: each client's model on the test samples of all, the global test.
        everybody_own_prior: the same with the client's class prior, where that makes a difference.
        new: the ensemble of all models on these.
        external: both on a group that takes no part.
        validation: each client's model on what was put aside of its training samples.
    """

    local: Accuracies
    everybody: Accuracies | None = None
    new: Accuracies | None = None
    external: Accuracies | None = None
    validation: Accuracies | None = None
    everybody_own_prior: Accuracies | None = None

    @staticmethod
    def of(
        local: Accuracies,
        common: Accuracies,
        external: Accuracies | None = None,
        validation: Accuracies | None = None,
    ) -> "ClientAccuracies":
        """``common`` has what clients and the ensemble achieve on the test samples of all."""
        everybody, new = replace(common, ensemble={}), Accuracies(ensemble=common.ensemble)
        return ClientAccuracies(local, everybody, new, external, validation)

    @property
    def tests(self) -> dict[str, Accuracies | None]:
        """The tests by their names in reports."""
        made = (
            self.local, self.everybody, self.everybody_own_prior, self.new, self.external,
            self.validation,
        )  # fmt: skip
        return dict(zip(TESTS, made, strict=True))

    def summary(self) -> dict[str, dict[str, float | None] | None]:
        """``test → number``; None for a test that was not made."""
        return {test: None if made is None else made.summary() for test, made in self.tests.items()}


def metrics(
    methods: Mapping[str, tuple[ClientAccuracies, int]], run: Mapping[str, object]
) -> dict[str, Any]:
    """Few numbers for all clients together, fit for JSON, in the form that is told above.

    ``methods`` have, by name, what each achieves and the bytes that all clients sent for it.
    """
    numbers = {
        name: {**accuracies.summary(), UPLOAD_BYTES: upload}
        for name, (accuracies, upload) in methods.items()
    }
    return {**numbers, RUN: dict(run)}


def clients_csv(
    facts: Mapping[str, Sequence[object]], methods: Mapping[str, ClientAccuracies]
) -> str:
    """``per_client.csv``: one line a client, facts first, then the accuracy of its models.

    A column of accuracy is called after its test, and ``<test>:<method>`` in a table of several
    methods. After them come ``nll`` and ``ece`` of the local test, named in the same way. An empty
    cell is a number that is not known or a fact that there is not. ``facts`` are columns by name,
    among them the clients' numbers.
    """
    columns = dict(facts)

    def add(heading: str, method: str, values: Float[np.ndarray, " clients"]) -> None:
        columns[heading if len(methods) == 1 else f"{heading}:{method}"] = values.tolist()

    for test in TESTS:
        heading = f"{VALIDATION}-accuracy" if test == VALIDATION else test  # beside its samples
        for method, accuracies in methods.items():
            made = accuracies.tests[test]
            if made is not None and len(made.clients):
                add(heading, method, made.clients)
    for heading in (NLL, ECE):
        for method, accuracies in methods.items():
            values = accuracies.local.nll if heading == NLL else accuracies.local.ece
            if values is not None:
                add(heading, method, values)
    return csv_text(list(columns), zip(*columns.values(), strict=True))
