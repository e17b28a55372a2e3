"""Bins of confidence as a table, and drawn."""

import numpy as np
import pytest

from pfl.artifacts.files import write_text
from pfl.errors import InputError
from pfl.evaluation.reliability.bins import Bins, bins_csv, read_bins
from pfl.evaluation.reliability.figure import draw_reliability
from pfl.evaluation.reliability.sums import Reliability
from tests.evaluation.reliability.test_sums import CLIENTS, drawn, reliability


def bins(seed=0, temperature=0.5):
    return Bins.of(reliability(*drawn(seed, 300, temperature=temperature), CLIENTS))


def test_a_table_read_again_has_the_same_bins(tmp_path):
    named = {"fedavg": bins(0), "fedhip:local": bins(1), "nothing": Bins.of(Reliability.zero(2))}
    write_text(tmp_path / "reliability.csv", bins_csv(named))
    read = read_bins(tmp_path / "reliability.csv")
    assert list(read) == list(named)
    for name, one in named.items():
        assert np.array_equal(read[name].count, one.count)
        assert np.array_equal(read[name].hits, one.hits)
        np.testing.assert_allclose(read[name].confidence, one.confidence, atol=300 * 5e-7)
    assert bins_csv(read) == bins_csv(named)


def test_their_error_is_that_of_all_samples_together():
    sums = reliability(*drawn(3, 300), CLIENTS)
    assert Bins.of(sums).ece == pytest.approx(sums.pooled().ece[0], abs=1e-12)
    assert np.isnan(Bins.of(Reliability.zero(1)).ece)


def test_bins_of_seeds_add_up():
    both = reliability(*drawn(0), CLIENTS) + reliability(*drawn(1), CLIENTS)
    added = Bins.of(reliability(*drawn(0), CLIENTS)) + Bins.of(reliability(*drawn(1), CLIENTS))
    assert np.array_equal(added.count, Bins.of(both).count)
    assert added.ece == pytest.approx(Bins.of(both).ece, abs=1e-12)


@pytest.mark.parametrize(
    "text", ["method\na\n", "method,samples,hits,confidence\na,1,1,0.5\n", "method,samples\na,x\n"]
)
def test_another_table_is_refused(tmp_path, text):
    write_text(tmp_path / "reliability.csv", text)
    with pytest.raises(InputError, match="of another form"):
        read_bins(tmp_path / "reliability.csv")


@pytest.mark.parametrize("count", [1, 3, 9])
def test_equal_bins_give_equal_figures(tmp_path, count):
    named = {f"method-{i}": bins(i, 0.3 + i) for i in range(count)}
    named["method-0"] = Bins.of(Reliability.zero(1)) if count == 3 else named["method-0"]
    drawn_twice = [tmp_path / f"{i}.png" for i in range(2)]
    for path in drawn_twice:
        draw_reliability(path, named)
    one, other = (path.read_bytes() for path in drawn_twice)
    assert one == other
    assert (tmp_path / "0.svg").read_text().count("ECE") == count - (count == 3)
