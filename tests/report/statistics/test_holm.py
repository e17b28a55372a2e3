"""Holm's correction, against its definition."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pfl.report.statistics.holm import holm

P = st.dictionaries(st.text(max_size=2), st.sampled_from([0.001, 0.01, 0.02, 0.04, 0.5, 1.0]))


def rejected(p, level):
    """Step down: the smallest p against level/m, the next against level/(m − 1), and so on."""
    left, found = dict(p), set()
    while left:
        name = min(left, key=left.get)
        if left[name] > level / len(left):
            break
        found.add(name)
        del left[name]
    return found


@given(P)
def test_it_rejects_what_stepping_down_rejects(p):
    corrected = holm(p)
    assert list(corrected) == list(p)
    for level in (0.0301, 0.0501, 0.1501):
        assert {name for name, value in corrected.items() if value <= level} == rejected(p, level)


@given(P)
def test_it_is_at_least_p_and_at_most_bonferroni_s(p):
    for name, value in holm(p).items():
        assert p[name] <= value <= min(1.0, len(p) * p[name]) or len(set(p.values())) < len(p)
        assert np.isclose(value, holm(dict(reversed(p.items())))[name])
