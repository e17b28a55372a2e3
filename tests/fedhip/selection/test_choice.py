"""A client's heads: what they may depend on, and what a choice never makes worse."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl.errors import InputError
from pfl.fedhip.closed_form import aggregate
from pfl.fedhip.families.equation_14 import personalized_head
from pfl.fedhip.families.local_head import local_head
from pfl.fedhip.families.table import FAMILIES, Family
from pfl.fedhip.selection import choice
from pfl.fedhip.selection.candidates import STACKED, PersonalizeSettings, Prior
from pfl.fedhip.selection.choice import (
    EQUATION_14,
    GLOBAL_PRIOR,
    KEPT,
    LOCAL,
    NO_CHOICE,
    PERSONALIZED,
    choose,
    prepare_choice,
)
from pfl.fedhip.selection.left_out_prior import own_log_ratio
from pfl.ridge.linalg import spectrum
from tests.fedhip.problems import pool_of, pools, problem_of
from tests.fedhip.test_closed_form import own, total
from tests.strategies import Federation, federations

families = st.sampled_from(list(Family))
seeds = st.integers(0, 2**32 - 1)
NUMBERS = {"alpha": 5.0, "beta": 2.0, "rho": 3.0, "shrinkage": 0.3, "pull": 20.0}


def alternatives(federation, family=Family.AUTO, **fixed):
    summed = total(federation)
    beta = 1.0 + float(np.trace(summed.gram_matrix())) / len(federation.labels)
    return prepare_choice(aggregate(summed, beta), PersonalizeSettings(family, **fixed))


def chosen_of(pool, family=Family.AUTO, **fixed):
    return choose(prepare_choice(pool.server(), PersonalizeSettings(family, **fixed)), *pool.mine)


def equal(one, two):
    """Bit for bit, all that a client keeps and records."""
    for kind in KEPT:
        a, b = one.kept[kind], two.kept[kind]
        np.testing.assert_array_equal(a.head.weight, b.head.weight)
        np.testing.assert_array_equal(a.head.bias, b.head.bias)
        assert (a.scale, a.prior) == (b.scale, b.prior)
    for name in ("log_ratio", "member", "stack", "factor", "objective"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert one.choice == two.choice


@settings(max_examples=10)
@given(federations(max_clients=5), families, st.integers(1, 6), seeds)
def test_theorem_3_through_the_choice_bit_for_bit(federation, family, others, seed):
    """Client 0 stays; everybody else's samples are dealt anew, to another number of clients."""
    dealt = federation.dealt_anew(others, np.random.default_rng(seed))
    mine = own(federation, 0)
    equal(
        choose(alternatives(federation, family), *mine), choose(alternatives(dealt, family), *mine)
    )


@settings(max_examples=8)
@given(federations(), seeds)
def test_clients_in_another_order_have_the_same_heads_bit_for_bit(federation, seed):
    order = np.random.default_rng(seed).permutation(federation.clients)
    other = replace(federation, owner=order[federation.owner])
    for k in range(min(2, federation.clients)):
        one = choose(alternatives(federation), *own(federation, k))
        equal(one, choose(alternatives(other), *own(other, order[k])))


@settings(max_examples=10)
@given(federations(), seeds)
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
    equal(choose(alternatives(one), *mine), choose(alternatives(two), *mine))


@settings(max_examples=10)
@given(federations(), st.sampled_from([0.0, 0.1, 30.0]))
def test_numbers_mean_what_the_paper_says(federation, alpha):
    """Equation (14) and the local head, from the functions of the paper; without a prior."""
    fixed = alternatives(federation, Family.FEDHIP, alpha=alpha, beta=7.0, prior=Prior.NONE)
    for k in range(federation.clients):
        mine = own(federation, k)
        heads = choose(fixed, *mine)
        paper = personalized_head(fixed.server, *mine, alpha)
        local = local_head(*mine, federation.classes, 7.0)
        for kind, weight in (
            (PERSONALIZED, paper), (EQUATION_14, paper), (LOCAL, local),
            (GLOBAL_PRIOR, fixed.server.head),
        ):  # fmt: skip
            atol = 1e-11 * (1 + np.abs(weight).max())
            np.testing.assert_allclose(heads.kept[kind].head.weight, weight, rtol=0, atol=atol)
            assert not heads.kept[kind].head.bias.any()


@settings(max_examples=8)
@given(federations(), st.sampled_from(FAMILIES))
def test_being_told_the_choice_gives_the_chosen_head_bit_for_bit(federation, family):
    choosing = alternatives(federation, family)
    for k in range(min(3, federation.clients)):
        mine = own(federation, k)
        chosen = choose(choosing, *mine)
        if len(mine[1]) < 2:
            continue
        one = choosing.candidates[chosen.member[FAMILIES.index(family)]]
        assert one.family is family
        numbers = {
            name: value
            for name in family.definition.grids
            if not math.isnan(value := getattr(one, name))
        }
        told = choose(alternatives(federation, family, **numbers), *mine)
        a, b = chosen.kept[PERSONALIZED], told.kept[PERSONALIZED]
        np.testing.assert_array_equal(a.head.weight, b.head.weight)
        np.testing.assert_array_equal(a.head.bias, b.head.bias)
        assert (a.scale, a.prior) == (b.scale, b.prior)


@settings(max_examples=10)
@given(federations(), families)
def test_of_each_family_the_first_candidate_of_least_objective_is_taken(federation, family):
    choosing = alternatives(federation, family)
    for k in range(federation.clients):
        mine = own(federation, k)
        chosen = choose(choosing, *mine)
        if len(mine[1]) < 2:
            assert np.isnan(chosen.objective).all()
            continue
        assert not np.isnan(chosen.objective).any()
        members = {i for i in chosen.member.tolist() if i != NO_CHOICE}
        assert members
        for number in members:
            of_family = choosing.numbers(choosing.candidates[number].family)
            assert number == of_family[chosen.objective[list(of_family)].argmin()]
        assert {choosing.candidates[i].family for i in members} <= set(
            STACKED if family is Family.AUTO else [family]
        )


@settings(max_examples=10)
@given(federations(), families, st.integers(0, 1))
def test_none_or_one_sample_leaves_an_open_choice_to_the_global_head(federation, family, samples):
    """Without a prior, at the temperature that sums give; others are the most global of theirs."""
    choosing = alternatives(federation, family)
    rows, labels = federation.features[:samples], federation.labels[:samples]
    chosen = choose(choosing, rows, labels)
    for kind in (PERSONALIZED, GLOBAL_PRIOR):
        kept = chosen.kept[kind]
        np.testing.assert_array_equal(kept.head.weight, choosing.server.head)
        assert not kept.head.bias.any()
        assert (kept.scale, kept.prior) == (choosing.temperature, 0.0)
    assert chosen.member.tolist() == [
        choosing.numbers(Family.GLOBAL)[0] if f is Family.GLOBAL else NO_CHOICE for f in FAMILIES
    ]
    for kind, of in ((LOCAL, Family.LOCAL), (EQUATION_14, Family.FEDHIP)):
        assert chosen.choice[kind] == choosing.numbers(of)[0]
        assert chosen.kept[kind].prior == 0.0


@pytest.mark.parametrize("samples", [0, 1])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_head_of_given_numbers_needs_no_sample_to_be_chosen_by(family, samples):
    pool = pool_of(np.random.default_rng(0), samples, 30, 5, 3)
    chosen = chosen_of(pool, family, **NUMBERS)
    assert (chosen.member != NO_CHOICE).tolist() == [f is family for f in FAMILIES]
    assert chosen.kept[PERSONALIZED].prior == 0.0


@settings(max_examples=10)
@given(federations(), families)
def test_no_prior_is_none_and_else_it_is_that_of_the_counts(federation, family):
    mine = own(federation, 0)
    chosen = choose(alternatives(federation, family, prior=Prior.NONE, smoothing=0.5), *mine)
    assert chosen.kept[PERSONALIZED].prior == 0.0
    for kind in (LOCAL, EQUATION_14):
        assert chosen.kept[kind].prior == 0.0
    counts = (np.bincount(x, minlength=federation.classes) for x in (mine[1], federation.labels))
    np.testing.assert_array_equal(chosen.log_ratio, own_log_ratio(*counts, 0.5))


@settings(max_examples=10)
@given(pools(least=0), families)
def test_a_personalized_head_is_what_its_stack_says(pool, family):
    """The recorded weights times the heads of the recorded candidates."""
    if not len(pool.labels):
        return
    choosing = prepare_choice(pool.server(), PersonalizeSettings(family))
    chosen = choose(choosing, *pool.mine)
    problem = problem_of(choosing.server, *pool.mine)
    weight, bias = np.zeros((2, *choosing.server.head.shape)), np.zeros((2, pool.classes))
    for number, factor, share in zip(chosen.member, chosen.factor, chosen.stack, strict=True):
        if number == NO_CHOICE:
            assert factor == share == 0.0
            continue
        head = choosing.head(int(number), problem)
        weight[0] += factor * head.weight
        bias[0] += factor * head.bias
        assert factor >= 0  # 0 of a head that says nothing
        assert share > 0
    kept = chosen.kept[PERSONALIZED].head
    np.testing.assert_allclose(kept.weight, weight[0], rtol=1e-12, atol=0)
    np.testing.assert_allclose(kept.bias, bias[0], rtol=1e-12, atol=0)


@settings(max_examples=8)
@given(pools(least=2), st.permutations(range(4)), st.sampled_from(list(Family)))
def test_classes_in_another_order_are_the_same_classes(pool, order, family):
    """Heads, calibration and stack; with given numbers, since equally good ones may differ."""
    labels = np.argsort(order)[pool.labels]
    sort = np.concatenate([np.argsort(labels[: pool.own]), np.arange(pool.own, len(labels))])
    other = replace(pool, features=pool.features[sort], labels=labels[sort])
    one, two = (chosen_of(each, family, **NUMBERS) for each in (pool, other))
    np.testing.assert_allclose(two.objective, one.objective, atol=1e-4)
    np.testing.assert_allclose(two.stack, one.stack, atol=5e-3)
    for kind in KEPT:
        a, b = one.kept[kind], two.kept[kind]
        scores = a.scale * a.head.scores(pool.features) + a.prior * one.log_ratio
        again = b.scale * b.head.scores(pool.features) + b.prior * two.log_ratio
        size = 1 + np.abs(scores).max()
        np.testing.assert_allclose(again, scores[:, order], rtol=0, atol=5e-3 * size)


@settings(max_examples=8)
@given(federations(), st.integers(-6, 4), families)
def test_features_in_another_unit_of_two_give_the_same_predictions(federation, power, family):
    """Ridges given in the same unit; those of the grid are round numbers, so not quite."""
    scaled = replace(federation, step=federation.step * 2.0**power)

    def scores(each, square):
        ridges = {"beta": 2.0 * square, "rho": 3.0 * square}
        server = aggregate(total(each), 0.5 * square)
        settings_of = PersonalizeSettings(family, **{**NUMBERS, **ridges})
        chosen = choose(prepare_choice(server, settings_of), *own(each, 0))
        for kind in KEPT:
            kept = chosen.kept[kind]
            yield kept.scale * kept.head.scores(each.features) + kept.prior * chosen.log_ratio

    for one, two in zip(scores(federation, 1.0), scores(scaled, 4.0**power), strict=True):
        np.testing.assert_allclose(two, one, atol=5e-3 * (1 + np.abs(one).max()))
        clear = np.ptp(np.sort(one, axis=1)[:, -2:], axis=1) > 1e-2 * (1 + np.abs(one).max())
        np.testing.assert_array_equal(two.argmax(1)[clear], one.argmax(1)[clear])


@settings(max_examples=8)
@given(federations())
def test_all_samples_twice_leave_everybodys_shares_as_they_are(federation):
    twice = Federation(
        *(np.concatenate([x, x]) for x in (federation.rows, federation.labels, federation.owner)),
        federation.clients, federation.classes,
    )  # fmt: skip
    np.testing.assert_array_equal(alternatives(twice).shares, alternatives(federation).shares)


def left_out_scores(verdict):
    members = verdict.members.values()
    return sum(w * one.scores for w, one in zip(verdict.weights, members, strict=True))


@settings(max_examples=13)
@given(pools(least=2))
def test_the_sum_never_errs_more_than_the_global_head_with_prior_but_by_chance(pool):
    choosing = prepare_choice(pool.server(), PersonalizeSettings(Family.AUTO))
    problem = problem_of(choosing.server, *pool.mine)
    verdict = choice._judged(choosing, problem)
    wrong, others = (
        z.argmax(axis=1) != problem.judged_labels
        for z in (left_out_scores(verdict), verdict.shared.scores)
    )
    differ = int((wrong != others).sum())
    assert wrong.sum() - others.sum() <= 2 * math.sqrt(differ)


@pytest.mark.parametrize(
    ("only", "other", "worse"), [(0, 0, False), (4, 0, False), (5, 0, True), (9, 2, True),
                                 (9, 3, False), (0, 9, False)],
)  # fmt: skip
def test_more_errors_than_chance_are_noticed(only, other, worse):
    """Both err 3 times; the sum alone so often, G alone so often."""
    right, wrong = [1.0, 0.0], [0.0, 1.0]
    samples = 3 + only + other + 20
    scores = np.array([wrong] * (3 + only) + [right] * (other + 20))
    shared = np.array([wrong] * 3 + [right] * only + [wrong] * other + [right] * 20)
    labels = np.zeros(samples, int)
    judged = choice.Judged(0, 1.0, 0.0, 0.0, scores)
    found = choice._worse({Family.LDA: judged}, np.ones(1), replace(judged, scores=shared), labels)
    assert found is worse


def test_a_sum_that_errs_more_is_left_for_the_global_head(monkeypatch):
    pool = pool_of(np.random.default_rng(0), 20, 60, 5, 3)
    assert np.count_nonzero(chosen_of(pool).stack) > 1
    monkeypatch.setattr(choice, "_worse", lambda *_: True)
    chosen = chosen_of(pool)
    assert (chosen.stack > 0).tolist() == [f is Family.GLOBAL for f in FAMILIES]
    kept, shared = chosen.kept[PERSONALIZED], chosen.kept[GLOBAL_PRIOR]
    np.testing.assert_array_equal(kept.head.weight, shared.head.weight)
    assert (kept.scale, kept.prior) == (shared.scale, shared.prior)


def test_a_sum_of_nothing_is_the_global_head(monkeypatch):
    monkeypatch.setattr(choice, "stack", lambda members, labels: np.zeros(len(members)))
    found = chosen_of(pool_of(np.random.default_rng(0), 20, 60, 5, 3))
    assert [FAMILIES[i] for i in np.flatnonzero(found.stack)] == [Family.GLOBAL]
    assert found.kept[PERSONALIZED].scale == found.kept[GLOBAL_PRIOR].scale


def test_equally_good_heads_are_tied_for_the_more_global():
    """Samples whose features are zero: every head without a bias scores them alike."""
    federation = Federation(
        np.random.default_rng(0).integers(-300, 301, (60, 6)).astype(np.int16),
        np.arange(60) % 3, np.zeros(60, int), 1, 3,
    )  # fmt: skip
    for family in (Family.FEDHIP, Family.ANCHORED, Family.LOCAL):
        choosing = alternatives(federation, family)
        chosen = choose(choosing, np.zeros((4, 6)), np.zeros(4, int))
        of_family = list(choosing.numbers(family))
        assert np.ptp(chosen.objective[of_family]) == 0
        assert chosen.member[FAMILIES.index(family)] == of_family[0]
        assert chosen.kept[PERSONALIZED].scale == 0.0


def noisy(pool, seed, size):
    """Sums with noise; like those released, the Gram matrix is positive semidefinite."""
    rng, server = np.random.default_rng(seed), pool.server()
    noise = size * rng.normal(size=server.gram.shape)
    gram = server.gram + noise + noise.T
    gram += max(0.0, -np.linalg.eigvalsh(gram)[0]) * np.eye(len(gram))
    count = np.maximum(server.count + np.rint(size * rng.normal(size=len(server.count))), 0)
    cross = server.cross + size * rng.normal(size=server.cross.shape)
    system = spectrum(gram)
    head = system.vectors @ ((system.vectors.T @ cross) / (system.values + 1.0)[:, None])
    return replace(server, gram=gram, cross=cross, count=count.astype(int), head=head)


@settings(max_examples=8)
@given(pools(), seeds, st.sampled_from([0.3, 3.0, 30.0]))
def test_noise_in_the_sums_ends_in_no_exception(pool, seed, size):
    chosen = choose(prepare_choice(noisy(pool, seed, size), PersonalizeSettings(Family.AUTO)),
                    *pool.mine)  # fmt: skip
    for kept in chosen.kept.values():
        assert np.isfinite(kept.head.weight).all()
        assert np.isfinite(kept.head.bias).all()
        assert kept.scale >= 0
        assert kept.prior >= 0
    assert np.isfinite(chosen.log_ratio).all()


def test_a_discriminant_that_noise_makes_impossible_is_not_chosen():
    """The means claim more scatter than there is in all; alone it is a sentence."""
    pool = pool_of(np.random.default_rng(0), 20, 60, 5, 3)
    server = pool.server()
    server = replace(server, cross=server.cross + 400 * np.eye(5)[:, :3])
    assert np.linalg.eigvalsh(server.scatter.within)[0] < 0
    choosing = prepare_choice(server, PersonalizeSettings(Family.AUTO))
    chosen = choose(choosing, *pool.mine)
    assert np.isinf(chosen.objective[list(choosing.numbers(Family.LDA))]).all()
    assert chosen.member[FAMILIES.index(Family.LDA)] == NO_CHOICE
    assert np.isfinite(chosen.kept[PERSONALIZED].head.weight).all()
    with pytest.raises(InputError, match=r"set personalize\.shrinkage higher"):
        choose(prepare_choice(server, PersonalizeSettings(Family.LDA)), *pool.mine)


def test_every_record_of_a_choice_is_compared_above():
    """So that a new one does not escape the laws."""
    assert {field.name for field in fields(choice.Chosen)} == {
        "kept", "log_ratio", "choice", "member", "stack", "factor", "objective"
    }  # fmt: skip
