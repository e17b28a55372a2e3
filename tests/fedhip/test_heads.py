"""heads.h5: what a client keeps comes back, of those who left nothing."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl.fedhip.families.table import FAMILIES, Family
from pfl.fedhip.heads import WEIGHTED, create_heads, open_heads, stored_head
from pfl.fedhip.selection.candidates import PersonalizeSettings
from pfl.fedhip.selection.choice import (
    EQUATION_14,
    KEPT,
    LOCAL,
    NO_CHOICE,
    PERSONALIZED,
    choose,
    prepare_choice,
)
from tests.fedhip.problems import Pool, pool_of

FIELDS = ("weight", "bias", "scale", "prior", "log_ratio")


def written(path, pools, gone, family=Family.AUTO, **fixed):
    """Heads of clients of one server, some of whom left; and what they chose."""
    alternatives = prepare_choice(pools[0].server(), PersonalizeSettings(family, **fixed))
    chosen = [None if k in gone else choose(alternatives, *p.mine) for k, p in enumerate(pools)]
    with create_heads(path, len(pools), alternatives, {"family": family.value}) as file:
        for k, one in enumerate(chosen):
            file.add(k, one)
    return alternatives, chosen


def dealt(seed, clients=3, width=4, classes=3):
    """Clients of the same pool of samples, the last of them without any."""
    pool = pool_of(np.random.default_rng(seed), 0, 40, width, classes)
    order = np.random.default_rng(seed).permutation(40)
    for k in range(clients):
        mine = order[k::clients][: 0 if k == clients - 1 else 9]
        mine = mine[np.argsort(pool.labels[mine], kind="stable")]
        rest = np.setdiff1d(np.arange(40), mine)
        both = np.concatenate([mine, rest])
        yield Pool(pool.features[both], pool.labels[both], len(mine), classes)


@settings(max_examples=8)
@given(st.integers(0, 2**32 - 1), st.sets(st.integers(0, 2), max_size=2), st.sampled_from(Family))
def test_all_kinds_come_back_as_they_are_stored(tmp_path_factory, seed, gone, family):
    path = tmp_path_factory.mktemp("h") / "heads.h5"
    pools = list(dealt(seed))
    alternatives, chosen = written(path, pools, gone, family)
    shared = alternatives.server.head
    with open_heads(path) as heads:
        assert heads.shape == (3, 4, 3)
        assert heads.stayed.tolist() == [k not in gone for k in range(3)]
        assert heads.temperature == alternatives.temperature
        np.testing.assert_array_equal(heads.shares, alternatives.shares)
        assert repr(heads.candidates) == repr(alternatives.candidates)  # NaN differs from itself
        for kind in KEPT:
            for k in sorted(set(range(3)) - gone):
                read, kept = heads.of(kind, shared, k, k + 1), stored_head(chosen[k], kind)
                for name in FIELDS:
                    np.testing.assert_array_equal(getattr(read, name), getattr(kept, name))
                    assert getattr(read, name).dtype == getattr(kept, name).dtype
                original = chosen[k].kept[kind]
                np.testing.assert_array_equal(read.weight[0], original.head.weight.astype("f4"))
                assert (read.scale[0], read.prior[0]) == (original.scale, original.prior)
                assert heads.prior(kind)[k] == original.prior
        for k, one in enumerate(chosen):
            if one is not None:
                for name in ("stack", "member", "objective"):
                    np.testing.assert_array_equal(getattr(heads, name)[k], getattr(one, name))
                for kind in (LOCAL, EQUATION_14):
                    number = one.choice[kind]
                    assert repr(heads.chosen(kind)[k]) == repr(heads.candidates[number])
                made = {
                    family: (repr(alternatives.candidates[i]), factor)
                    for family, i, factor in zip(FAMILIES, one.member, one.factor, strict=True)
                    if i != NO_CHOICE
                }
                found = heads.made_of(k).items()
                assert {f: (repr(c), w) for f, (c, w) in found} == made


def test_a_client_that_left_has_nothing(tmp_path):
    alternatives, _ = written(tmp_path / "h.h5", list(dealt(0)), {1})
    with open_heads(tmp_path / "h.h5") as heads:
        for kind in KEPT:
            gone = heads.of(kind, alternatives.server.head, 1, 2)
            for name in ("scale", "prior", "log_ratio"):
                assert np.isnan(getattr(gone, name)).all()
            if kind in WEIGHTED:
                assert np.isnan(gone.weight).all()
                assert np.isnan(gone.bias).all()
        assert np.isnan(heads.stack[1]).all()
        assert np.isnan(heads.objective[1]).all()
        assert (heads.member[1] == NO_CHOICE).all()
        assert heads.made_of(1) == {}
        assert heads.chosen(LOCAL)[1] is None
        assert heads.stayed.tolist() == [True, False, True]


def test_ranges_of_clients_are_parts_of_the_whole(tmp_path):
    alternatives, _ = written(tmp_path / "h.h5", list(dealt(1)), set())
    shared = alternatives.server.head
    with open_heads(tmp_path / "h.h5") as heads:
        for kind in KEPT:
            whole, part = heads.of(kind, shared, 0, 3), heads.of(kind, shared, 1, 3)
            for name in FIELDS:
                np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[1:])


def test_scores_are_those_of_the_members_weighted(tmp_path):
    """A sum's weights are factors times its members' and its scale is 1."""
    pools = list(dealt(2))
    alternatives, chosen = written(tmp_path / "h.h5", pools, set())
    assert max(np.count_nonzero(one.stack) for one in chosen) > 1
    with open_heads(tmp_path / "h.h5") as heads:
        for k, one in enumerate(chosen):
            parts = heads.made_of(k)
            stored = heads.of(PERSONALIZED, alternatives.server.head, k, k + 1)
            problem = pools[k].problem()
            summed = sum(
                factor * candidate.family.definition.head(candidate, problem).weight
                for candidate, factor in parts.values()
            )
            np.testing.assert_allclose(stored.weight[0], summed, rtol=1e-5, atol=1e-6)
            assert len(parts) == 1 or stored.scale[0] == 1.0
            assert len(parts) == np.count_nonzero(one.stack)


def test_the_same_choice_gives_the_same_bytes(tmp_path):
    pools = list(dealt(3))
    for name in "ab":
        written(tmp_path / name, pools, {2})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    moved = [replace(pools[0], labels=pools[0].labels[::-1].copy()), *pools[1:]]
    written(tmp_path / "c", moved, {2})
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()


@pytest.mark.parametrize("kind", KEPT)
def test_weights_are_float32_and_calibrations_float64(tmp_path, kind):
    alternatives, _ = written(tmp_path / "h.h5", list(dealt(4)), set())
    with open_heads(tmp_path / "h.h5") as heads:
        found = heads.of(kind, alternatives.server.head, 0, 1)
    assert found.weight.dtype == found.bias.dtype == np.float32
    assert found.scale.dtype == found.prior.dtype == found.log_ratio.dtype == np.float64
