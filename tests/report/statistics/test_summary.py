"""All numbers of a table together, the same whatever order methods come in."""

import numpy as np
import pytest

from experiments.coverage import Case
from pfl.errors import InputError
from pfl.report.statistics.bold import bold
from pfl.report.statistics.difference import p_of_difference
from pfl.report.statistics.holm import holm
from pfl.report.statistics.outcomes import Outcomes
from pfl.report.statistics.summary import summarize


@pytest.fixture
def outcomes():
    return Case(12, 2).outcomes(np.random.default_rng(0), methods=4)


def test_lines_are_in_the_order_given_and_do_not_depend_on_it(outcomes):
    lines = summarize(outcomes, "m2")
    other = Outcomes(outcomes.tested, dict(reversed(outcomes.right.items())))
    assert list(lines) == ["m0", "m1", "m2", "m3"]
    assert dict(reversed(summarize(other, "m2").items())) == lines


def test_a_line_does_not_depend_on_other_methods_but_by_correction(outcomes):
    fewer = Outcomes(outcomes.tested, {name: outcomes.right[name] for name in ("m0", "m2")})
    whole, part = summarize(outcomes, "m2")["m0"], summarize(fewer, "m2")["m0"]
    assert (whole.mean, whole.worst) == (part.mean, part.worst)
    assert whole.against.difference == part.against.difference
    assert part.against.p == whole.against.p == part.against.corrected


def test_it_has_what_its_parts_say(outcomes):
    lines = summarize(outcomes, "m2")
    assert lines["m2"].against is None
    assert {name for name, line in lines.items() if line.bold} == bold(outcomes)
    p = {name: p_of_difference(outcomes, name, "m2", 0) for name in ("m0", "m1", "m3")}
    assert {name: lines[name].against.corrected for name in p} == holm(p)


def test_a_baseline_that_is_not_there_is_told(outcomes):
    with pytest.raises(InputError, match=r"no method fedavg .* compare\.baseline .* m0, m1"):
        summarize(outcomes, "fedavg")


def test_a_method_without_clients_is_in_no_correction(outcomes):
    outcomes.right["m0"] = [np.full_like(right, np.nan) for right in outcomes.right["m0"]]
    lines = summarize(outcomes, "m2")
    assert np.isnan([lines["m0"].mean.value, lines["m0"].against.corrected]).all()
    p = {name: p_of_difference(outcomes, name, "m2", 0) for name in ("m1", "m3")}
    assert lines["m1"].against.corrected == holm(p)["m1"]
