"""Bold are the best and all that cannot be told apart from it."""

import numpy as np

from experiments.coverage import Case
from pfl.report.statistics.bold import bold
from pfl.report.statistics.outcomes import Outcomes


def of(tested, **right):
    shaped = {name: [np.array([values], float)] for name, values in right.items()}
    return Outcomes([np.array(tested)], shaped)


def test_the_truly_best_is_among_them():
    """Ten equal methods, each of which is a best: the first is left out in at most 5 %."""
    rng = np.random.default_rng(0)
    found = [bold(Case(20).outcomes(rng, methods=10)) for _ in range(200)]
    assert np.mean(["m0" in marked for marked in found]) >= 0.95
    assert np.mean([len(marked) for marked in found]) > 9


def test_what_is_clearly_worse_is_not_and_ties_are():
    rng = np.random.default_rng(1)
    tested = np.full(20, 50)
    good = rng.binomial(tested, 0.9)
    marked = bold(of(tested, a=good, b=good, worse=good - 5 - rng.integers(0, 3, 20)))
    assert marked == {"a", "b"}


def test_names_and_order_decide_nothing():
    outcomes = Case(20, 3, 1.0).outcomes(np.random.default_rng(2), methods=6)
    other = Outcomes(outcomes.tested, dict(reversed(outcomes.right.items())))
    assert bold(outcomes) == bold(other)


def test_one_client_tells_methods_apart_by_its_samples_alone():
    assert bold(of([10], a=[9], b=[7])) == {"a", "b"}
    assert bold(of([1000], a=[990], b=[300])) == {"a"}


def test_what_was_not_tested_is_never_bold_and_strangers_are():
    nothing = np.nan
    outcomes = of([9, 9, 0], a=[9, nothing, 0], b=[nothing, 1, 0], c=[nothing, nothing, 0])
    assert bold(outcomes) == {"a", "b"}  # no client has both: nothing says that b is worse
    assert bold(of([4, 4], a=[2, 3])) == {"a"}
    assert bold(of([0], a=[0])) == set()
