"""Accuracy along the paths is that of the heads made one by one."""

import numpy as np
import pytest

from pfl.data.features.features import open_features
from pfl.data.samples.clients import read_clients
from pfl.data.samples.index import read_index
from pfl.evaluation import alpha_curve
from pfl.evaluation.alpha_curve import accuracy_curves
from pfl.fedhip.families.anchored_head import anchored_head
from pfl.fedhip.families.equation_14 import personalized_head
from pfl.fedhip.families.table import Family
from pfl.fedhip.server import read_server
from tests.synthetic import STEP, write_federation


@pytest.fixture(params=[6, 20], ids=["more samples than features", "fewer"])
def inputs(request, tmp_path):
    write_federation(tmp_path, 5, request.param, 4, 60, 80)
    with open_features(tmp_path / "features.h5") as features:
        yield (
            read_index(tmp_path / "index.h5"),
            read_clients(tmp_path / "clients.h5"),
            features,
            read_server(tmp_path / "server.h5")[1],
            np.ones(5, bool),
        )


def test_every_point_is_the_accuracy_of_a_head(inputs):
    index, clients, features, knowledge, _ = inputs
    found = accuracy_curves(*inputs)
    assert found.clients.tolist() == [0, 1, 2, 3]
    rows = features.rows(0, len(index.label)) * STEP
    for place, k in enumerate(found.clients.tolist()):
        own, test = clients.train.of(k), clients.test.of(k)
        mine, truth = (rows[own], index.label[own]), index.label[test]
        for family, head in (
            (Family.FEDHIP, lambda a, d=mine: personalized_head(knowledge, *d, a)),
            (Family.ANCHORED, lambda r, d=mine: anchored_head(knowledge.head, *d, r)),
        ):
            expected = [
                np.mean((rows[test] @ head(v)).argmax(1) == truth) for v in found.values[family]
            ]
            np.testing.assert_allclose(found.accuracy[family][place], expected, atol=1e-12)


def test_threads_change_nothing_and_large_federations_are_sampled(inputs, monkeypatch):
    one, three = accuracy_curves(*inputs), accuracy_curves(*inputs, threads=3)
    np.testing.assert_array_equal(one.accuracy[Family.FEDHIP], three.accuracy[Family.FEDHIP])
    monkeypatch.setattr(alpha_curve, "MOST", 2)
    few = accuracy_curves(*inputs)
    assert few.clients.tolist() == [0, 3]
    np.testing.assert_array_equal(
        few.accuracy[Family.ANCHORED], one.accuracy[Family.ANCHORED][[0, 3]]
    )
