"""Ranks over clients, Demšar's critical difference, and a figure that shows all names."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.coverage import Case
from pfl.report.statistics.figure import draw_ranks
from pfl.report.statistics.outcomes import Outcomes
from pfl.report.statistics.ranks import Ranks, ranks

# Demšar 2006, Table 5 (a): q of the Nemenyi test at 5 %, by the number of methods.
Q = {2: 1.960, 3: 2.343, 4: 2.569, 5: 2.728, 10: 3.164}


@pytest.mark.parametrize("methods", Q)
def test_the_critical_difference_is_demsar_s(methods):
    found = ranks(Case(24).outcomes(np.random.default_rng(0), methods))
    expected = Q[methods] * np.sqrt(methods * (methods + 1) / (6 * 24))
    assert found.critical == pytest.approx(expected, rel=1e-3)
    assert found.blocks == 24


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_mean_ranks_are_shared_among_ties_and_of_the_clients_that_all_have(seed, methods):
    outcomes = Case(7, 2).outcomes(np.random.default_rng(seed), methods)
    outcomes.right["m0"][1][0, 3] = np.nan
    found = ranks(outcomes)
    assert found.blocks == 13
    assert sum(found.means.values()) == pytest.approx(methods * (methods + 1) / 2)
    other = ranks(Outcomes(outcomes.tested, dict(reversed(outcomes.right.items()))))
    assert other.means == pytest.approx(found.means)


def test_the_best_has_rank_one_and_equal_methods_no_statistic():
    tested = [np.array([9, 9, 9, 9])]
    right = {name: [np.full((1, 4), float(n))] for name, n in (("a", 5), ("b", 8), ("c", 6))}
    found = ranks(Outcomes(tested, right))
    assert found.means == {"a": 3, "b": 1, "c": 2}
    assert found.p < 0.05
    same = dict.fromkeys("abc", right["a"])
    assert ranks(Outcomes(tested, same)).p == 1
    assert np.isnan(ranks(Outcomes(tested, {"a": right["a"], "b": right["b"]})).p)
    assert ranks(Outcomes([np.array([0])], {"a": [np.zeros((1, 1))]})) is None


def test_the_figure_has_every_name_and_its_bytes_follow_from_the_numbers(tmp_path):
    means = {f"method-{i}": 1 + i / 2 for i in range(25)}
    for name in ("one", "two"):
        draw_ranks(tmp_path / f"{name}.png", Ranks(means, 2.5, 100, 0.01))
    draw_ranks(tmp_path / "other.png", Ranks(means, 3.5, 100, 0.01))
    for ending in ("png", "svg"):
        one, two, other = (
            (tmp_path / f"{n}.{ending}").read_bytes() for n in ("one", "two", "other")
        )
        assert one == two != other
    text = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert all(f">{name}<" in text for name in means)
    assert "100 clients" in text
