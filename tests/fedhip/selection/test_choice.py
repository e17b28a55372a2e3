"""Choosing among candidates: what a client may use, ties, and what numbers have always meant."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.fedhip.closed_form import aggregate, with_beta
from pfl.fedhip.families.anchored_head import anchored_head
from pfl.fedhip.families.client_problem import ClientProblem
from pfl.fedhip.families.equation_14 import personalized_head
from pfl.fedhip.families.local_head import local_head
from pfl.fedhip.families.table import FAMILIES, Family
from pfl.fedhip.selection.candidates import PersonalizeSettings, candidates, eligible
from pfl.fedhip.selection.choice import choose, prepare_choice
from pfl.fedhip.selection.criteria import Criterion, loss
from pfl.fedhip.selection.losses import losses
from tests.fedhip.test_closed_form import own, total
from tests.strategies import federations

families = st.sampled_from(list(Family))
criteria = st.sampled_from(list(Criterion))


def alternatives(federation, family, criterion=Criterion.MARGIN, numbers=(None, None, None)):
    summed = total(federation)
    beta = 1.0 + float(np.trace(summed.gram_matrix())) / len(federation.labels)
    return prepare_choice(
        summed, aggregate(summed, beta), PersonalizeSettings(family, *numbers), criterion
    )


def equal(one, two):
    np.testing.assert_array_equal(one.personalized, two.personalized)
    np.testing.assert_array_equal(one.local, two.local)
    np.testing.assert_array_equal(one.losses, two.losses)
    assert (one.choice, one.local_choice) == (two.choice, two.local_choice)


@given(federations(), st.sampled_from([0.0, 0.1, 30.0]))
def test_numbers_mean_what_they_always_did_bit_for_bit(federation, alpha):
    """Equation (14) and the local head at the server's beta, from the functions of the paper."""
    summed = total(federation)
    beta = 1.0 + float(np.trace(summed.gram_matrix()))
    knowledge = aggregate(summed, beta)
    settings = PersonalizeSettings(Family.FEDHIP, alpha, beta, None)
    fixed = prepare_choice(summed, knowledge, settings, Criterion.MARGIN)
    for k in range(federation.clients):
        mine = own(federation, k)
        heads = choose(fixed, *mine)
        np.testing.assert_array_equal(
            heads.personalized, personalized_head(knowledge, *mine, alpha)
        )
        np.testing.assert_array_equal(heads.local, local_head(*mine, federation.classes, beta))
        assert np.isnan(heads.losses).all()


@given(federations(), criteria)
def test_being_told_the_choice_gives_the_chosen_head_bit_for_bit(federation, criterion):
    choosing = alternatives(federation, Family.AUTO, criterion)
    for k in range(federation.clients):
        mine = own(federation, k)
        chosen = choose(choosing, *mine)
        one = choosing.candidates[chosen.choice]
        numbers = (None if math.isnan(x) else x for x in (one.alpha, one.beta, one.rho))
        told = choose(alternatives(federation, one.family, criterion, tuple(numbers)), *mine)
        np.testing.assert_array_equal(told.personalized, chosen.personalized)


@given(federations(), criteria)
def test_the_first_candidate_of_least_loss_is_chosen(federation, criterion):
    choosing = alternatives(federation, Family.AUTO, criterion)
    for k in range(federation.clients):
        chosen = choose(choosing, *own(federation, k))
        if np.isnan(chosen.losses).all():
            continue
        assert not np.isnan(chosen.losses).any()
        assert chosen.choice == chosen.losses.argmin()
        local = np.array(choosing.local)
        assert chosen.local_choice == local[chosen.losses[local].argmin()]


@given(federations(), families, st.integers(0, 1))
def test_none_or_one_sample_leaves_an_open_choice_to_the_global_head(federation, family, samples):
    choosing = alternatives(federation, family)
    rows, labels = federation.features[:samples], federation.labels[:samples]
    chosen = choose(choosing, rows, labels)
    if family is Family.LOCAL:
        assert choosing.candidates[chosen.choice].family is Family.GLOBAL
    np.testing.assert_array_equal(chosen.personalized, choosing.server.head)
    largest = max(choosing.candidates[i].beta for i in choosing.local)
    assert choosing.candidates[chosen.local_choice].beta == largest


def test_equally_good_heads_are_tied_for_the_more_global():
    """Samples whose features are zero: every head scores them alike."""
    federation = sample_federation()
    choosing = alternatives(federation, Family.AUTO)
    rows = np.zeros((4, federation.rows.shape[1]))
    chosen = choose(choosing, rows, np.zeros(4, int))
    assert np.ptp(chosen.losses) == 0
    assert choosing.candidates[chosen.choice].family is Family.GLOBAL


def sample_federation(seed=0, samples=60, width=6, clients=3, owner=None):
    from tests.strategies import Federation

    rng = np.random.default_rng(seed)
    rows = rng.integers(-300, 301, (samples, width)).astype(np.int16)
    owner = rng.integers(0, clients, samples) if owner is None else owner
    return Federation(rows, rng.integers(0, 3, samples), owner, clients, 3)


@given(federations(max_clients=5), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_theorem_3_through_the_choice_bit_for_bit(federation, others, seed):
    """Client 0 stays; everybody else's samples are dealt anew, to another number of clients."""
    dealt = federation.dealt_anew(others, np.random.default_rng(seed))
    mine = own(federation, 0)
    equal(
        choose(alternatives(federation, Family.AUTO), *mine),
        choose(alternatives(dealt, Family.AUTO), *mine),
    )


@given(federations(), st.integers(0, 2**32 - 1))
def test_a_client_sees_nothing_of_another_beyond_the_sums(federation, seed):
    """Another client's samples may change as long as the sums do not: here, signs in pairs."""
    flipped = federation.rows.copy()
    others = federation.owner != 0
    flipped[others] = -flipped[others]
    twice = lambda rows: np.concatenate([rows, -rows])  # noqa: E731 (each sample and its opposite)
    labels, owner = np.tile(federation.labels, 2), np.tile(federation.owner, 2)
    one, two = (
        type(federation)(twice(rows), labels, owner, federation.clients, federation.classes)
        for rows in (federation.rows, flipped)
    )
    mine = own(one, 0)
    equal(
        choose(alternatives(one, Family.AUTO), *mine), choose(alternatives(two, Family.AUTO), *mine)
    )


@pytest.mark.parametrize("samples", [4, 40])
@pytest.mark.parametrize("criterion", Criterion)
def test_the_surface_is_that_of_refits(samples, criterion):
    """Every candidate of every family refitted without each sample, by either route."""
    owner = (np.arange(60) >= samples).astype(int)
    federation = sample_federation(owner=owner)
    choosing = alternatives(federation, Family.AUTO, criterion)
    chosen = choose(choosing, *own(federation, 0))
    for i in range(0, len(choosing.candidates), 5):
        residuals = refitted(federation, choosing, choosing.candidates[i])
        _, labels = federation.of(0)
        expected = loss(criterion, residuals[:, None], labels)[0]
        np.testing.assert_allclose(chosen.losses[i], expected, rtol=1e-9, atol=1e-9)


def refitted(federation, choosing, one):
    """Residual of each sample of client 0 under the head made when it takes no part anywhere."""
    mine = np.flatnonzero(federation.owner == 0)
    mine = mine[np.argsort(federation.labels[mine], kind="stable")]
    rows = []
    for i in mine:
        keep = np.arange(len(federation.labels)) != i
        less = type(federation)(
            federation.rows[keep],
            federation.labels[keep],
            federation.owner[keep],
            federation.clients,
            federation.classes,
        )
        knowledge = aggregate(total(less), choosing.server.beta)
        head = made(one, knowledge, *own(less, 0))
        rows.append(np.eye(3)[federation.labels[i]] - federation.features[i] @ head)
    return np.array(rows)


def made(one, knowledge, features, labels):
    match one.family:
        case Family.FEDHIP:
            return personalized_head(with_beta(knowledge, one.beta), features, labels, one.alpha)
        case Family.ANCHORED:
            return anchored_head(knowledge.head, features, labels, one.rho)
        case Family.LOCAL:
            return local_head(features, labels, 3, one.beta)
    return knowledge.head


@given(families, st.sampled_from([None, 2.0]), st.sampled_from([None, 3.0]), st.floats(1e-6, 1e6))
def test_candidates_are_the_familys_with_numbers_kept(family, beta, rho, scale):
    every = candidates(PersonalizeSettings(family, 5.0, beta, rho), scale)
    assert every[0].family is Family.GLOBAL
    assert [one.family for one in every].count(Family.GLOBAL) == 1
    mine = [every[i] for i in eligible(every, family)]
    assert {one.family for one in mine} == (set(FAMILIES) if family is Family.AUTO else {family})
    for one in every:
        assert one.alpha == 5.0 or one.family is not Family.FEDHIP
        assert beta is None or one.family in (Family.GLOBAL, Family.ANCHORED) or one.beta == beta
        assert rho is None or one.family is not Family.ANCHORED or one.rho == rho
    for family, name in ((Family.ANCHORED, "rho"), (Family.LOCAL, "beta")):
        values = [getattr(one, name) for one in every if one.family is family]
        assert values == sorted(values, reverse=True)


def test_only_what_is_compared_is_measured():
    federation = sample_federation()
    choosing = alternatives(federation, Family.FEDHIP, numbers=(2.0, None, None))
    surface = losses(
        ClientProblem(choosing.path, choosing.server.beta, *own(federation, 0)),
        choosing.candidates,
        choosing.open,
        Criterion.MARGIN,
    )
    measured = {choosing.candidates[i].family for i in np.flatnonzero(~np.isnan(surface))}
    assert measured == {Family.FEDHIP, Family.LOCAL}
