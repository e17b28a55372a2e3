"""Ensembles of affine heads: averages and votes against plain loops over clients."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.evaluation import ensemble
from pfl.evaluation.ensemble import averages
from pfl.evaluation.scoring import HeadGroup, score


def reader(heads):
    return lambda start, stop: HeadGroup(
        heads.weight[start:stop], heads.bias[start:stop], heads.own_bias[start:stop]
    )


def drawn(seed, clients=9):
    """Heads, samples and who stayed; heads of those that left are NaN, as they are stored."""
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((clients, 4, 3)).astype(np.float32)
    bias, own = rng.standard_normal((2, clients, 3)).astype(np.float32)
    stayed = rng.permutation(np.arange(clients) < rng.integers(1, clients + 1))
    for part in (weight, bias, own):
        part[~stayed] = np.nan
    return HeadGroup(weight, bias, own), np.where(stayed, rng.integers(1, 50, clients), 0), stayed


@given(seed=st.integers(0, 99), size=st.integers(1, 10))
def test_averages_are_those_of_a_plain_loop(seed, size):
    """Of the biases that have no client's prior, for own samples too, which an average has not."""
    heads, samples, stayed = drawn(seed)
    kept, ensemble.RANGE = ensemble.RANGE, size
    try:
        found = averages(reader(heads), samples, stayed, (4, 3))
    finally:
        ensemble.RANGE = kept
    members = np.flatnonzero(stayed)
    for averaged, each in ((found.weight, heads.weight), (found.bias, heads.bias)):
        plain = sum(each[k].astype(float) for k in members) / len(members)
        by_samples = sum(samples[k] * each[k].astype(float) for k in members) / samples.sum()
        np.testing.assert_allclose(averaged[0], plain, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(averaged[1], by_samples, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(found.own_bias, found.bias)


def test_the_average_heads_score_is_the_mean_of_the_scores():
    rng = np.random.default_rng(0)
    heads, samples, stayed = drawn(3)
    rows, label = rng.standard_normal((200, 4)), rng.integers(3, size=200)
    both = averages(reader(heads), samples, stayed, (4, 3))
    found = score(rows, label, np.full(200, -1), reader(heads), both, stayed)
    members = np.flatnonzero(stayed)
    each = {k: rows @ heads.weight[k] + heads.bias[k] for k in members}
    mean = sum(each.values())
    weighted = sum(samples[k] * scores for k, scores in each.items())
    right = [(scores.argmax(1) == label).sum() for scores in (mean, weighted)]
    assert found.ensemble[[0, 2]].tolist() == right


@pytest.mark.parametrize("clients", [1, 5])
def test_one_head_for_all_is_its_own_average(clients):
    rng = np.random.default_rng(1)
    weight, bias = rng.standard_normal((4, 3)).astype("f4"), rng.standard_normal(3).astype("f4")
    same = HeadGroup(*(np.repeat(x[None], clients, axis=0) for x in (weight, bias, bias)))
    samples = np.arange(1, clients + 1)
    found = averages(reader(same), samples, samples > 0, weight.shape)
    for i in range(2):
        np.testing.assert_allclose(found.weight[i], weight, rtol=1e-6)
        np.testing.assert_allclose(found.bias[i], bias, rtol=1e-6)
