import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl.evaluation import scoring
from pfl.evaluation.reliability.sums import log_probabilities, reliability
from pfl.evaluation.scoring import HeadGroup, Hits, score, score_own, score_shared

CASES = st.tuples(
    st.integers(0, 30), st.integers(1, 5), st.integers(1, 7), st.integers(1, 4), st.integers(0, 99)
)


def case(drawn):
    """Small whole numbers, so that float32 is exact and ties are frequent."""
    n, m, clients, classes, seed = drawn
    rng = np.random.default_rng(seed)
    rows = rng.integers(-3, 4, (n, m)).astype(np.int16)
    heads = HeadGroup(
        rng.integers(-2, 3, (clients, m, classes)).astype(np.float32),
        rng.integers(-3, 4, (clients, classes)).astype(np.float32),
        rng.integers(-3, 4, (clients, classes)).astype(np.float32),
    )
    return rows, rng.integers(classes, size=n), rng.integers(-1, clients, size=n), heads


def part(heads, which):
    return HeadGroup(heads.weight[which], heads.bias[which], heads.own_bias[which])


def predicted(row, weight, bias):
    """The first class of the largest score, by loops."""
    scores = [
        sum(f * w for f, w in zip(row, column, strict=True)) + b
        for column, b in zip(weight.T.tolist(), bias.tolist(), strict=True)
    ]
    return scores.index(max(scores))


def naive(rows, label, owner, heads, voters):
    """Hits alone with the own prior, on all with and without it, and of the vote."""
    own, pooled, personal = [], [], []
    votes = [[0] * heads.weight.shape[2] for _ in rows]
    for client in range(len(heads.weight)):
        weight, common, mine = heads.weight[client], heads.bias[client], heads.own_bias[client]
        plain = [predicted(row, weight, common) for row in rows.tolist()]
        prior = [predicted(row, weight, mine) for row in rows.tolist()]
        for cast, choice in zip(votes, plain, strict=True):
            cast[choice] += bool(voters[client])
        pooled.append(sum(c == y for c, y in zip(plain, label.tolist(), strict=True)))
        personal.append(sum(c == y for c, y in zip(prior, label.tolist(), strict=True)))
        triples = zip(prior, label.tolist(), owner.tolist(), strict=True)
        own.append(sum(c == y for c, y, k in triples if k == client))
    elected = [cast.index(max(cast)) for cast in votes]
    return own, pooled, personal, sum(e == c for e, c in zip(elected, label.tolist(), strict=True))


def reader(heads):
    return lambda start, stop: part(heads, slice(start, stop))


def scored(rows, label, owner, heads, voters=None, threads=1):
    """Hits of these heads, whose averages are the first and the last of them."""
    voters = np.ones(len(heads.weight), bool) if voters is None else voters
    return score(rows, label, owner, reader(heads), part(heads, [0, -1]), voters, threads)


@given(drawn=CASES, threads=st.integers(1, 3), columns=st.integers(1, 9), block=st.integers(1, 9))
def test_score_is_the_loop_over_clients_and_samples(drawn, threads, columns, block):
    rows, label, owner, heads = case(drawn)
    kept = scoring.BLOCK_COLUMNS, scoring.BLOCK_ROWS
    scoring.BLOCK_COLUMNS, scoring.BLOCK_ROWS = columns, block
    try:
        voters = np.random.default_rng(drawn[-1]).integers(2, size=len(heads.weight)).astype(bool)
        hits = scored(rows, label, owner, heads, voters, threads)
    finally:
        scoring.BLOCK_COLUMNS, scoring.BLOCK_ROWS = kept
    own, pooled, personal, voted = naive(rows, label, owner, heads, voters)
    assert (hits.own.tolist(), hits.pooled.tolist()) == (own, pooled)
    assert hits.pooled_own_prior.tolist() == personal
    assert hits.ensemble.tolist() == [pooled[0], voted, pooled[-1]]


@settings(max_examples=40)
@given(drawn=CASES, block=st.integers(1, 9))
def test_probabilities_are_those_of_own_samples_with_the_own_prior(drawn, block):
    rows, label, owner, heads = case(drawn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "BLOCK_ROWS", block)
        found = scored(rows, label, owner, heads).reliability
    for k in range(len(heads.weight)):
        mine = owner == k
        scores = rows[mine].astype(float) @ heads.weight[k] + heads.own_bias[k]
        nobody = np.zeros(mine.sum(), np.int64)
        expected = reliability(log_probabilities(scores), label[mine], nobody, 1)
        np.testing.assert_allclose(found.nll[k], expected.nll[0])
        np.testing.assert_allclose(found.ece[k], expected.ece[0], atol=1e-12)
        assert found.samples[k] == mine.sum()


@settings(max_examples=40)
@given(drawn=CASES)
def test_one_client_alone_is_scored_as_among_all(drawn):
    rows, label, owner, heads = case(drawn)
    among = scored(rows, label, owner, heads)
    for k in range(len(heads.weight)):
        mine = owner == k
        hits, alone = score_own(rows[mine], label[mine], part(heads, slice(k, k + 1)))
        assert hits == among.own[k]
        np.testing.assert_allclose(alone.nll[0], among.reliability.nll[k])


@given(drawn=CASES)
def test_a_shared_head_scores_like_the_same_head_given_to_everybody(drawn):
    rows, label, owner, heads = case(drawn)
    clients = len(heads.weight)
    nothing = np.zeros_like(heads.bias)
    same = HeadGroup(np.repeat(heads.weight[:1], clients, axis=0), nothing, nothing)
    shared = score_shared(rows, label, owner, heads.weight[0], clients)
    check_equal(shared, scored(rows, label, owner, same))


def check_equal(one, other):
    for name in ("own", "pooled", "pooled_own_prior", "ensemble"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_allclose(one.reliability.nll, other.reliability.nll)
    np.testing.assert_allclose(one.reliability.ece, other.reliability.ece, atol=1e-9)


@given(drawn=CASES, cut=st.integers(0, 30))
def test_hits_of_disjoint_samples_add(drawn, cut):
    rows, label, owner, heads = case(drawn)
    total = Hits.zero(len(heads.weight))
    for some in (slice(cut), slice(cut, None)):
        total += scored(rows[some], label[some], owner[some], heads)
    check_equal(total, scored(rows, label, owner, heads))


@settings(max_examples=40)
@given(drawn=CASES, shift=st.sampled_from([-50.0, 3.0]))
def test_what_all_classes_share_in_a_bias_changes_nothing(drawn, shift):
    rows, label, owner, heads = case(drawn)
    moved = HeadGroup(heads.weight, heads.bias + np.float32(shift), heads.own_bias)
    check_equal(scored(rows, label, owner, moved), scored(rows, label, owner, heads))


def test_the_unit_of_the_features_does_not_matter():
    rng = np.random.default_rng(0)
    rows = rng.integers(-9000, 9000, (200, 16)).astype(np.int16)
    weight = rng.standard_normal((3, 16, 10)).astype(np.float32)
    bias = rng.standard_normal((2, 3, 10)).astype(np.float32)
    label, owner = rng.integers(10, size=200), rng.integers(3, size=200)
    whole = scored(rows, label, owner, HeadGroup(weight, *bias))
    coarse = HeadGroup(weight * np.float32(2**9), *bias)
    check_equal(whole, scored(rows * 2.0**-9, label, owner, coarse))
