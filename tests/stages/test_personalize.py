"""The stage on a small federation: bytes, choices, and what it may read."""

import h5py
import numpy as np
import pytest

from pfl.artifacts.hdf5 import reading
from pfl.artifacts.provenance import UNKNOWN
from pfl.data.client_features.by_client import by_client
from pfl.data.features.features import open_features
from pfl.data.samples.clients import Clients, assign, read_clients, write_clients
from pfl.data.samples.index import read_index
from pfl.fedhip.families.equation_14 import personalized_head
from pfl.fedhip.families.local_head import local_head
from pfl.fedhip.families.table import FAMILIES, Family
from pfl.fedhip.heads import open_heads
from pfl.fedhip.members import Members, without, write_members
from pfl.fedhip.membership import solve_sums
from pfl.fedhip.moments import Moments, total
from pfl.fedhip.selection.candidates import STACKED, Prior
from pfl.fedhip.server import read_server, write_server
from stages.gram import client_moments
from stages.personalize import personalize
from tests.plain_heads import plain_heads
from tests.synthetic import PLAIN, STEP, write_federation

INPUTS = ("index", "clients", "features", "server", "members")
NUMBERS = ("alpha", "beta", "rho", "shrinkage", "pull")
SHARED = ("share", "personalized/family")  # arrays that are not of each client
CLASSES = 4


@pytest.fixture
def folder(tmp_path):
    write_federation(tmp_path, 5, 12, CLASSES, 60, 80)
    return tmp_path


def run(folder, family=Family.AUTO, **given):
    """The stage with these settings, all others left open."""
    inputs = (folder / f"{name}.h5" for name in INPUTS)
    out = folder / "heads.h5"
    numbers = [given.get(name, "auto") for name in NUMBERS]
    prior = given.get("prior", Prior.AUTO), given.get("smoothing", 0.1)
    personalize(*inputs, out, family, *numbers, *prior, *PLAIN)
    return out.read_bytes()


def test_the_number_of_threads_changes_no_byte(folder, monkeypatch):
    monkeypatch.setattr("stages.personalize.cores", lambda: 1)
    first = run(folder)
    monkeypatch.setattr("stages.personalize.cores", lambda: 3)
    assert run(folder) == first


def test_numbers_give_the_heads_of_the_paper(folder):
    """As before there was a choice: equation (14) and the local head at the server's beta."""
    run(folder, Family.FEDHIP, alpha="10.0", beta="1.0", prior=Prior.NONE)
    index, held = read_index(folder / "index.h5"), read_clients(folder / "clients.h5").train
    _, knowledge = read_server(folder / "server.h5")
    kept = plain_heads(folder / "heads.h5")
    with open_features(folder / "features.h5") as features:
        for own in by_client(features, index, held):
            k, rows = own.client, own.rows * STEP
            paper = personalized_head(knowledge, rows, own.labels, 10.0).astype(np.float32)
            local = local_head(rows, own.labels, CLASSES, 1.0).astype(np.float32)
            for kind, expected in (
                ("personalized", paper), ("equation-14", paper), ("local", local)
            ):  # fmt: skip
                np.testing.assert_array_equal(kept[kind][k].weight, expected)
                assert not kept[kind][k].bias.any()
                assert kept[kind][k].prior == 0.0
    with open_heads(folder / "heads.h5") as heads:
        assert {(one.family, one.alpha) for one in heads.chosen("equation-14")} == {
            (Family.FEDHIP, 10.0)
        }
        assert {(one.family, one.beta) for one in heads.chosen("local")} == {(Family.LOCAL, 1.0)}


@pytest.mark.parametrize("prior", Prior)
@pytest.mark.parametrize("family", Family)
def test_each_family_is_what_it_says(folder, family, prior):
    run(folder, family, prior=prior)
    _, knowledge = read_server(folder / "server.h5")
    with open_heads(folder / "heads.h5") as kept:
        candidates, objective = kept.candidates, kept.objective
        allowed = set(STACKED) if family is Family.AUTO else {family}
        assert all(one.family is Family.LOCAL for one in kept.chosen("local"))
        assert all(one.family is Family.FEDHIP for one in kept.chosen("equation-14"))
        for k in range(5):
            made_of = kept.made_of(k)
            assert made_of.keys() <= allowed
            assert made_of.keys() == {f for f, w in zip(FAMILIES, kept.stack[k]) if w > 0}  # noqa: B905 (as long)
            for of, (one, _) in made_of.items():
                assert one.family is of
                row = objective[k][[c.family is of for c in candidates]]
                assert np.isnan(row).all() or objective[k][candidates.index(one)] == row.min()
    heads = plain_heads(folder / "heads.h5")
    if prior is Prior.NONE:
        assert all(one.prior == 0.0 for one in heads["personalized"])
    if family is Family.GLOBAL:
        for one in heads["personalized"]:
            np.testing.assert_array_equal(one.weight, knowledge.head.astype(np.float32))
    if family in (Family.LOCAL, Family.FEDHIP) and prior is Prior.NONE:
        same = "local" if family is Family.LOCAL else "equation-14"
        for one, other in zip(heads["personalized"], heads[same], strict=True):
            np.testing.assert_array_equal(one.weight, other.weight)


def test_a_sum_that_is_no_better_than_g_is_g_with_the_prior_that_was_asked_for(folder, monkeypatch):
    monkeypatch.setattr("pfl.fedhip.selection.choice._worse", lambda *_: True)
    for prior in Prior:
        run(folder, prior=prior)
        heads = plain_heads(folder / "heads.h5", folder / "server.h5")
        for one, shared, other in zip(
            heads["personalized"], heads["global"], heads["global-prior"], strict=True
        ):
            np.testing.assert_array_equal(one.weight, shared.weight.astype(np.float32))
            assert one.prior == (0.0 if prior is Prior.NONE else other.prior)
        assert any(one.prior > 0 for one in heads["global-prior"])


def test_the_prior_is_of_the_clients_counts_and_of_everybodys(folder):
    """Written out: p_k(c) = (n_c + ε d π_c) / (N_k + ε d), and r_c = log p_k(c) / π_c."""
    run(folder, smoothing=0.5)
    label, held = read_index(folder / "index.h5").label, read_clients(folder / "clients.h5").train
    everybody = np.bincount(label[held.sample], minlength=CLASSES) / len(held.sample)
    for k, one in enumerate(plain_heads(folder / "heads.h5")["personalized"]):
        own = np.bincount(label[held.of(k)], minlength=CLASSES)
        likely = (own + 0.5 * CLASSES * everybody) / (own.sum() + 0.5 * CLASSES)
        np.testing.assert_allclose(one.own_ratio, np.log(likely / everybody), atol=1e-12)
        np.testing.assert_allclose(one.even_ratio, -np.log(CLASSES * everybody), atol=1e-12)


def test_smoothing_moves_neither_the_local_head_nor_the_papers(folder):
    run(folder)
    before = arrays(folder)
    run(folder, smoothing=3.0)
    after = arrays(folder)
    moved = {name for name in before if before[name].tobytes() != after[name].tobytes()}
    assert moved >= {"log-ratio", "leave-one-out", "personalized/prior"}
    assert not [name for name in moved if name.startswith(("local/", "equation-14/"))]
    with open_heads(folder / "heads.h5") as kept:
        paper = [one.family is Family.FEDHIP for one in kept.candidates]
    np.testing.assert_array_equal(
        before["leave-one-out"][:, paper], after["leave-one-out"][:, paper]
    )


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
    """Every array of numbers of each client."""
    found = {}

    def keep(name, item):
        if isinstance(item, h5py.Dataset) and len(item) and name not in SHARED:
            found[name] = item[...]

    with reading(folder / "heads.h5", "heads") as file:
        file.visititems(keep)
    return {name: values for name, values in found.items() if not name.startswith("candidate/")}


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
        assert kept.stayed.tolist() == member.tolist()
        for kind in ("local", "equation-14"):
            assert [one is not None for one in kept.chosen(kind)] == member.tolist()
        assert kept.made_of(2) == {}
        assert all(kept.made_of(k) for k in (0, 1, 3, 4))
    for name, values in arrays(folder).items():
        if name.endswith(("choice", "member")):
            assert (values[2] == -1).all()
        else:
            assert np.isnan(values[2]).all(), name
            assert name == "leave-one-out" or np.isfinite(values[:2]).all(), name
