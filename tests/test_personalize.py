"""The stage on a small federation: bytes, choices, and what it may read."""

import numpy as np
import pytest

from pfl.clients import read_clients
from pfl.features import open_features
from pfl.fedhip import local_head, personalized_head
from pfl.heads import open_heads
from pfl.index import read_index
from pfl.rows import by_client
from pfl.selection.candidates import Family
from pfl.selection.criteria import Criterion
from pfl.server import read_server
from stages.personalize import personalize
from tests.synthetic import STEP, write_federation

INPUTS = ("index", "clients", "features", "server")
CLASSES = 4


@pytest.fixture
def folder(tmp_path):
    write_federation(tmp_path, 5, 12, CLASSES, 60, 80)
    return tmp_path


def run(folder, family=Family.AUTO, alpha="auto", beta="auto", rho="auto"):
    inputs = (folder / f"{name}.h5" for name in INPUTS)
    out = folder / "heads.h5"
    personalize(*inputs, out, family, alpha, beta, rho, Criterion.MARGIN)
    return out.read_bytes()


def test_the_number_of_threads_changes_no_byte(folder, monkeypatch):
    monkeypatch.setattr("stages.personalize.cores", lambda: 1)
    first = run(folder)
    monkeypatch.setattr("stages.personalize.cores", lambda: 3)
    assert run(folder) == first


def test_numbers_give_the_heads_of_the_paper(folder):
    """As before there was a choice: equation (14) and the local head at the server's beta."""
    run(folder, Family.FEDHIP, "10.0", "1.0")
    index, held = read_index(folder / "index.h5"), read_clients(folder / "clients.h5").train
    _, knowledge = read_server(folder / "server.h5")
    with open_features(folder / "features.h5") as features, open_heads(folder / "heads.h5") as kept:
        for own in by_client(features, index, held):
            k, rows = own.client, own.rows * STEP
            expected = personalized_head(knowledge, rows, own.labels, 10.0).astype(np.float32)
            np.testing.assert_array_equal(kept.personalized(k, k + 1)[0], expected)
            expected = local_head(rows, own.labels, CLASSES, 1.0).astype(np.float32)
            np.testing.assert_array_equal(kept.local(k, k + 1)[0], expected)
        assert {(one.family, one.alpha, one.beta) for one in kept.chosen} == {
            (Family.FEDHIP, 10.0, 1.0)
        }


@pytest.mark.parametrize("family", Family)
def test_each_family_is_what_it_says(folder, family):
    run(folder, family)
    with open_heads(folder / "heads.h5") as kept:
        chosen = {one.family for one in kept.chosen}
        assert family is Family.AUTO or chosen == {family}
        assert all(one.family is Family.LOCAL for one in kept.chosen_local)
        heads, local = kept.personalized(0, 5), kept.local(0, 5)
        losses = kept.losses
        for k, one in enumerate(kept.chosen):
            row = losses[k][[c.family is one.family for c in kept.candidates]]
            mine = losses[k][kept.candidates.index(one)]
            assert np.isnan(row).all() or mine == row.min()
    if family is Family.GLOBAL:
        _, knowledge = read_server(folder / "server.h5")
        assert (heads == knowledge.head.astype(np.float32)).all()
    if family is Family.LOCAL:
        np.testing.assert_array_equal(heads, local)
