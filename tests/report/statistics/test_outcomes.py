"""Counts of the same samples, and nothing else, are compared."""

import numpy as np
import pytest

from pfl.errors import InputError
from pfl.report.statistics.outcomes import Outcomes, mean_of

TESTED = [np.array([4, 0, 2])]


def test_runs_are_averaged_and_what_is_not_known_stays_so():
    right = np.array([[4.0, 0.0, np.nan], [2.0, 0.0, 1.0]])
    outcomes = Outcomes(TESTED, {"a": [right]})
    (values,) = outcomes.accuracies("a")
    assert values[0] == 0.75
    assert np.isnan(values[1:]).all()
    assert outcomes.methods == ["a"]


@pytest.mark.parametrize(
    "right",
    [
        [np.array([[1.0, 0, 1]])] * 2,
        [np.array([[1.0, 0]])],
        [np.empty((0, 3))],
        [np.array([[5.0, 0, 1]])],
        [np.array([[-1.0, 0, 1]])],
    ],
    ids=["repeats", "clients", "no run", "too many", "below none"],
)
def test_results_of_other_clients_are_refused(right):
    with pytest.raises(InputError, match=r"^a (has|is) .*: compare methods on the same partition"):
        Outcomes(TESTED, {"a": right})


def test_every_repeat_counts_the_same():
    assert mean_of([np.array([1.0]), np.zeros(9)]) == 0.5
    assert np.isnan(mean_of([]))
