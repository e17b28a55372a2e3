"""Sums of probabilities' quality: laws of a monoid, and known cases of NLL and ECE."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.errors import InputError
from pfl.evaluation.reliability.sums import (
    BINS,
    FLOOR,
    Reliability,
    joined,
    log_probabilities,
    reliability,
)

CLIENTS, CLASSES = 4, 5
SEEDS = st.integers(0, 2**32 - 1)


def drawn(seed, n=60, clients=CLIENTS, temperature=1.0):
    """Log-probabilities, labels that they know something of, and owners, some of them nobody."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, CLASSES))
    label = (scores + rng.normal(size=scores.shape)).argmax(1)
    owner = rng.integers(-1, clients, n)
    return log_probabilities(scores / temperature), label, owner


def naive(log_probability, label, owner, client):
    """Mean loss and calibration error of a client, sample by sample as in the papers."""
    bins = [[] for _ in range(BINS)]
    losses = []
    for row, y, k in zip(log_probability, label, owner, strict=True):
        if k == client:
            p = np.exp(row)
            top = int(p.argmax())
            place = next(b for b in range(BINS) if p[top] <= (b + 1) / BINS or b == BINS - 1)
            bins[place].append((p[top], top == y))
            losses.append(-math.log(p[y]))
    if not losses:
        return math.nan, math.nan
    gaps = [abs(sum(c for c, _ in b) - sum(h for _, h in b)) for b in bins]
    return sum(losses) / len(losses), sum(gaps) / len(losses)


def close(one, other):
    assert np.array_equal(one.count, other.count)
    assert np.array_equal(one.hits, other.hits)
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-12)
    np.testing.assert_allclose(one.confidence, other.confidence, rtol=1e-12)


@given(seed=SEEDS)
def test_it_is_what_the_papers_say_sample_by_sample(seed):
    samples = drawn(seed)
    sums = reliability(*samples, CLIENTS + 1)  # of the last client there is nothing
    expected = np.array([naive(*samples, client) for client in range(CLIENTS + 1)])
    np.testing.assert_allclose(np.stack([sums.nll, sums.ece], 1), expected, atol=1e-12)
    assert np.array_equal(np.isnan(sums.nll), sums.samples == 0)
    assert np.array_equal(np.isnan(sums.ece), sums.samples == 0)


@given(seed=SEEDS, cuts=st.lists(st.integers(0, 60), max_size=4))
def test_the_sums_of_parts_are_those_of_the_whole(seed, cuts):
    samples = drawn(seed)
    edges = [0, *sorted(cuts), 60]
    total = Reliability.zero(CLIENTS)
    for first, last in pairwise(edges):
        total += reliability(*(part[first:last] for part in samples), CLIENTS)
    close(total, reliability(*samples, CLIENTS))


@given(seed=SEEDS)
def test_sums_come_in_any_order_and_nothing_adds_nothing(seed):
    a, b, c = (reliability(*drawn([seed, i]), CLIENTS) for i in range(3))
    close(a + b, b + a)
    close((a + b) + c, a + (b + c))
    close(a + Reliability.zero(CLIENTS), a)


@given(seed=SEEDS)
def test_clients_in_another_order_are_the_same_clients(seed):
    log_probability, label, owner = drawn(seed)
    order = np.random.default_rng(seed).permutation(CLIENTS)
    place = np.append(np.argsort(order), -1)  # of client k, and of nobody
    sums = reliability(log_probability, label, owner, CLIENTS)
    moved = reliability(log_probability, label, place[owner], CLIENTS)
    assert np.array_equal(moved.nll, sums.nll[order], equal_nan=True)
    assert np.array_equal(moved.ece, sums.ece[order], equal_nan=True)


@given(seed=SEEDS)
def test_clients_put_together_are_one_who_has_all_their_samples(seed):
    log_probability, label, owner = drawn(seed)
    sums = reliability(log_probability, label, owner, CLIENTS)
    one = reliability(log_probability, label, np.where(owner >= 0, 0, -1), 1)
    close(sums.pooled(), one)
    alone = [reliability(log_probability, label, np.where(owner == k, 0, -1), 1) for k in range(4)]
    close(joined(alone), sums)


@given(seed=SEEDS)
def test_accuracy_is_in_the_hits(seed):
    log_probability, label, owner = drawn(seed)
    sums = reliability(log_probability, label, owner, CLIENTS)
    correct = log_probability.argmax(1) == label
    for client in range(CLIENTS):
        assert sums.hits[client].sum() == correct[owner == client].sum()
        assert sums.samples[client] == (owner == client).sum()


def calibrated(samples, clients, seed=0):
    """Log-probabilities, and labels that are drawn by them, of so many samples a client."""
    rng = np.random.default_rng(seed)
    count = samples * clients
    log_probability = log_probabilities(2 * rng.normal(size=(count, CLASSES)))
    label = (np.exp(log_probability).cumsum(1) < rng.random((count, 1))).sum(1)
    return log_probability, label.clip(max=CLASSES - 1), np.repeat(np.arange(clients), samples)


def test_labels_drawn_by_the_probabilities_are_calibrated_and_others_are_not():
    log_probability, label, owner = calibrated(100_000, 1)
    honest = reliability(log_probability, label, owner, 1)
    boasting = reliability(log_probabilities(3 * log_probability), label, owner, 1)
    assert honest.ece[0] < 0.01
    assert boasting.ece[0] > 0.1
    assert honest.nll[0] < boasting.nll[0]
    entropy = -(np.exp(log_probability) * log_probability).sum(1).mean()
    assert honest.nll[0] == pytest.approx(entropy, abs=0.01)


def test_of_few_samples_the_error_is_too_large_and_pooled_it_is_not():
    few, many = (reliability(*calibrated(n, 300), 300) for n in (30, 300))
    assert few.ece.mean() > 0.1 > many.ece.mean() > few.pooled().ece[0]
    assert few.pooled().ece[0] < 0.02


@given(seed=SEEDS, temperature=st.sampled_from([0.3, 3.0]))
def test_temperature_changes_probabilities_and_no_prediction(seed, temperature):
    plain = reliability(*drawn(seed), CLIENTS)
    scaled = reliability(*drawn(seed, temperature=temperature), CLIENTS)
    assert np.array_equal(plain.hits.sum(1), scaled.hits.sum(1))
    assert (plain.loss != scaled.loss)[plain.samples > 0].all()


@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_whoever_knows_nothing_loses_the_logarithm_of_the_number_of_classes(classes):
    label = np.arange(classes)
    scores = np.full((classes, classes), -7.0)
    sums = reliability(log_probabilities(scores), label, np.zeros(classes, np.int64), 1)
    assert sums.nll[0] == pytest.approx(math.log(classes), rel=1e-12)
    assert sums.ece[0] == pytest.approx(0, abs=1e-12)  # it is right as often as it believes to be


def test_an_impossible_label_costs_the_floor_and_not_everything():
    with np.errstate(divide="ignore"):
        certain = np.log(np.array([[1.0, 0.0], [1.0, 0.0]]))
    sums = reliability(certain, np.array([0, 1]), np.zeros(2, np.int64), 1)
    assert sums.nll[0] == -FLOOR / 2
    assert 708 < -FLOOR < 709
    assert sums.ece[0] == 0.5


@pytest.mark.parametrize("shift", [0.0, 1e4, -1e4])
def test_scores_of_any_size_give_probabilities(shift):
    scores = np.array([[0.0, 800.0, -800.0], [1.0, 2.0, 3.0]]) + shift
    got = log_probabilities(scores.astype(np.float32))
    assert got.dtype == np.float64
    np.testing.assert_allclose(np.exp(got).sum(1), 1, rtol=1e-12)
    np.testing.assert_allclose(got[0], [-800, 0, -1600], rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_no_numbers_are_refused(bad):
    with pytest.raises(InputError, match="diverged"):
        log_probabilities(np.array([[0.0, bad]]))


@pytest.mark.parametrize(("confidence", "place"), [(0.5, 7), (0.6, 8), (1.0, 14), (0.999, 14)])
def test_a_bin_has_its_upper_edge(confidence, place):
    row = np.log([[confidence, 1 - confidence + 1e-300]])
    sums = reliability(row, np.array([0]), np.array([0]), 1)
    assert sums.count[0].tolist() == [int(b == place) for b in range(BINS)]
