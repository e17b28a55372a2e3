"""The stage on a small federation: bytes, choices, and what it may read."""

import numpy as np
import pytest

from pfl.artifacts.hdf5 import read, reading
from pfl.artifacts.provenance import UNKNOWN
from pfl.data.client_features.by_client import by_client
from pfl.data.features.features import open_features
from pfl.data.samples.clients import Clients, assign, read_clients, write_clients
from pfl.data.samples.index import read_index
from pfl.fedhip.families.equation_14 import personalized_head
from pfl.fedhip.families.local_head import local_head
from pfl.fedhip.families.table import Family
from pfl.fedhip.heads import open_heads
from pfl.fedhip.members import Members, without, write_members
from pfl.fedhip.membership import solve_sums
from pfl.fedhip.moments import Moments, total
from pfl.fedhip.selection.criteria import Criterion
from pfl.fedhip.server import read_server, write_server
from stages.gram import client_moments
from stages.personalize import personalize
from tests.synthetic import PLAIN, STEP, write_federation

INPUTS = ("index", "clients", "features", "server", "members")
CLASSES = 4


@pytest.fixture
def folder(tmp_path):
    write_federation(tmp_path, 5, 12, CLASSES, 60, 80)
    return tmp_path


def run(folder, family=Family.AUTO, alpha="auto", beta="auto", rho="auto"):
    inputs = (folder / f"{name}.h5" for name in INPUTS)
    out = folder / "heads.h5"
    personalize(*inputs, out, family, alpha, beta, rho, Criterion.MARGIN, *PLAIN)
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


def leave(folder, *clients):
    """Take clients out of the sums, as the stage does."""
    samples, held = read_index(folder / "index.h5"), read_clients(folder / "clients.h5").train
    member = without(clients, held.clients)
    with open_features(folder / "features.h5") as features:
        sent = list(client_moments(features, held, samples))
    summed = total((sent[k] for k in np.flatnonzero(member)), Moments.zero(12, CLASSES, STEP))
    write_server(folder / "server.h5", summed, solve_sums(summed, None), automatic=True)
    write_members(folder / "members.h5", Members(member, UNKNOWN))
    return member


def never_there(folder, member):
    """Deal the samples of those who left to nobody, so that the others have other numbers."""
    held, label = read_clients(folder / "clients.h5"), read_index(folder / "index.h5").label
    number = np.cumsum(member) - 1
    parts = []
    for part in (held.train, held.test):
        samples = [part.of(k) for k in np.flatnonzero(member).tolist()]
        owner = np.repeat(number[member], [len(one) for one in samples])
        sample = np.concatenate(samples)
        parts.append(assign(owner, sample, label[sample], int(member.sum()), CLASSES))
    write_clients(folder / "clients.h5", Clients(*parts), {})
    write_members(folder / "members.h5", Members(np.ones(int(member.sum()), bool), UNKNOWN))


def arrays(folder):
    names = ("local", "personalized", "local-choice", "choice", "leave-one-out")
    with reading(folder / "heads.h5", "heads") as file:
        return {name: read(file, name) for name in names}


def test_the_others_heads_are_those_of_a_run_in_which_it_never_took_part(folder):
    member = leave(folder, 3, 0)
    run(folder)
    found = arrays(folder)
    never_there(folder, member)
    run(folder)
    for name, expected in arrays(folder).items():
        assert found[name][member].tobytes() == expected.tobytes()


def test_a_client_that_left_has_no_heads(folder):
    member = leave(folder, 2)
    run(folder)
    with open_heads(folder / "heads.h5") as kept:
        for chosen in (kept.chosen, kept.chosen_local):
            assert [one is not None for one in chosen] == member.tolist()
        for values in (kept.local(2, 3), kept.personalized(2, 3), kept.losses[2]):
            assert np.isnan(values).all()
        assert np.isfinite(kept.personalized(0, 2)).all()
