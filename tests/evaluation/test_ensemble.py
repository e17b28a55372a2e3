"""Ensembles of linear heads: averages and votes against plain loops over clients."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.evaluation import ensemble
from pfl.evaluation.ensemble import averages
from pfl.evaluation.scoring import score


def reader(heads):
    return lambda start, stop: heads[start:stop]


def drawn(seed, clients=9):
    """Heads, samples and who stayed; heads of those that left are NaN, as they are stored."""
    rng = np.random.default_rng(seed)
    heads = rng.standard_normal((clients, 4, 3)).astype(np.float32)
    stayed = rng.permutation(np.arange(clients) < rng.integers(1, clients + 1))
    heads[~stayed] = np.nan
    return heads, np.where(stayed, rng.integers(1, 50, clients), 0), stayed


@given(seed=st.integers(0, 99), size=st.integers(1, 10))
def test_averages_are_those_of_a_plain_loop(seed, size):
    heads, samples, stayed = drawn(seed)
    kept, ensemble.RANGE = ensemble.RANGE, size
    try:
        mean, weighted = averages(reader(heads), samples, stayed, heads.shape[1:])
    finally:
        ensemble.RANGE = kept
    members = np.flatnonzero(stayed)
    plain = sum(heads[k].astype(float) for k in members) / len(members)
    by_samples = sum(samples[k] * heads[k].astype(float) for k in members) / samples.sum()
    np.testing.assert_allclose(mean, plain, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(weighted, by_samples, rtol=1e-6, atol=1e-7)


def test_the_average_heads_score_is_the_mean_of_the_scores():
    rng = np.random.default_rng(0)
    heads, samples, stayed = drawn(3)
    rows, label = rng.standard_normal((200, 4)), rng.integers(3, size=200)
    both = averages(reader(heads), samples, stayed, heads.shape[1:])
    found = score(rows, label, np.full(200, -1), reader(heads), both, stayed)
    members = np.flatnonzero(stayed)
    mean = sum(rows @ heads[k] for k in members)
    weighted = sum(samples[k] * (rows @ heads[k]) for k in members)
    right = [(scores.argmax(1) == label).sum() for scores in (mean, weighted)]
    assert found.ensemble[[0, 2]].tolist() == right


@pytest.mark.parametrize("clients", [1, 5])
def test_one_head_for_all_is_its_own_average(clients):
    head = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    same = np.repeat(head[None], clients, axis=0)
    samples = np.arange(1, clients + 1)
    for one in averages(reader(same), samples, samples > 0, head.shape):
        np.testing.assert_allclose(one, head, rtol=1e-6)
