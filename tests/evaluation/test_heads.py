"""Heads as they score: scale, bias and prior folded into one product."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl.evaluation.heads import even_ratio, head_group, shared_group
from pfl.fedhip.closed_form import aggregate
from pfl.fedhip.heads import StoredHeads
from pfl.fedhip.moments import Moments
from pfl.runtime.class_prior import shares


def stored(seed, clients=3, m=4, d=5):
    rng = np.random.default_rng(seed)
    return StoredHeads(
        rng.normal(size=(clients, m, d)).astype(np.float32),
        rng.normal(size=(clients, d)).astype(np.float32),
        rng.uniform(0.1, 5, clients),
        rng.uniform(0, 2, clients),
        rng.normal(size=(clients, d)),
    )


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2.0**-8, 1.0, 0.3]))
def test_scores_are_scale_times_head_plus_prior_times_ratio(seed, step):
    heads, rng = stored(seed), np.random.default_rng(seed)
    even = even_ratio(shares(rng.integers(0, 9, 5)))
    rows = rng.integers(-300, 301, (6, 4)).astype(float)
    group = head_group(heads, step, even)
    for k in range(3):
        plain = heads.scale[k] * (step * rows @ heads.weight[k].astype(float) + heads.bias[k])
        for bias, ratio in ((group.own_bias, heads.log_ratio[k]), (group.bias, even)):
            expected = plain + heads.prior[k] * ratio
            found = rows @ group.weight[k].astype(float) + bias[k]
            atol = 1e-5 * (1 + np.abs(expected).max())
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=atol)


def test_even_shares_stand_for_nobodys_prior():
    """Log 1/(d π_c): 0 where classes are even for all, more where a class is rare."""
    np.testing.assert_allclose(even_ratio(np.full(4, 0.25)), 0.0, atol=1e-15)
    ratio = even_ratio(np.array([0.5, 0.25, 0.25, 0.0]))
    np.testing.assert_allclose(ratio, [np.log(0.5), 0.0, 0.0, 0.0], atol=1e-15)


def test_the_shared_head_has_no_prior_and_one_temperature():
    server = aggregate(Moments.zero(4, 3, 0.5), 1.0)
    head = np.random.default_rng(0).normal(size=(4, 3))
    object.__setattr__(server, "head", head)
    group = shared_group(server, 3.0, 0.5)
    np.testing.assert_allclose(group.weight[0], 1.5 * head, rtol=1e-6)
    assert not group.bias.any()
    assert not group.own_bias.any()


def test_heads_of_those_who_left_stay_unknown():
    heads = stored(0)
    for name in ("weight", "bias", "scale", "prior", "log_ratio"):
        getattr(heads, name)[1] = np.nan
    group = head_group(heads, 1.0, np.zeros(5))
    for value in (group.weight, group.bias, group.own_bias):
        assert np.isnan(value[1]).all()
        assert np.isfinite(value[[0, 2]]).all()
