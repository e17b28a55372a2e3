import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pfl.evaluation import scoring
from pfl.evaluation.scoring import Hits, score, score_shared

CASES = st.tuples(
    st.integers(0, 30), st.integers(1, 5), st.integers(1, 7), st.integers(1, 4), st.integers(0, 99)
)


def case(drawn):
    """Small whole numbers, so that float32 is exact and ties are frequent."""
    n, m, clients, classes, seed = drawn
    rng = np.random.default_rng(seed)
    rows = rng.integers(-3, 4, (n, m)).astype(np.int16)
    heads = rng.integers(-2, 3, (clients, m, classes)).astype(np.float32)
    return rows, rng.integers(classes, size=n), rng.integers(-1, clients, size=n), heads


def naive(rows, label, owner, heads, voters):
    own, pooled = [], []
    votes = [[0] * heads.shape[2] for _ in rows]
    for client, head in enumerate(heads):
        correct = []
        for row, c, cast in zip(rows.tolist(), label.tolist(), votes, strict=True):
            scores = [sum(f * w for f, w in zip(row, column, strict=True)) for column in head.T]
            correct.append(scores.index(max(scores)) == c)
            cast[scores.index(max(scores))] += bool(voters[client])
        pooled.append(sum(correct))
        own.append(sum(hit for hit, k in zip(correct, owner, strict=True) if k == client))
    elected = [cast.index(max(cast)) for cast in votes]
    return own, pooled, sum(e == c for e, c in zip(elected, label.tolist(), strict=True))


def reader(heads):
    return lambda start, stop: heads[start:stop]


def scored(rows, label, owner, heads, voters=None, threads=1):
    """Hits of these heads, whose averages are the first and the last of them."""
    voters = np.ones(len(heads), bool) if voters is None else voters
    return score(rows, label, owner, reader(heads), heads[[0, -1]], voters, threads)


@given(drawn=CASES, threads=st.integers(1, 3), columns=st.integers(1, 9), block=st.integers(1, 9))
def test_score_is_the_loop_over_clients_and_samples(drawn, threads, columns, block):
    rows, label, owner, heads = case(drawn)
    kept = scoring.BLOCK_COLUMNS, scoring.BLOCK_ROWS
    scoring.BLOCK_COLUMNS, scoring.BLOCK_ROWS = columns, block
    try:
        voters = np.random.default_rng(drawn[-1]).integers(2, size=len(heads)).astype(bool)
        hits = scored(rows, label, owner, heads, voters, threads)
    finally:
        scoring.BLOCK_COLUMNS, scoring.BLOCK_ROWS = kept
    own, pooled, voted = naive(rows, label, owner, heads, voters)
    assert (hits.own.tolist(), hits.pooled.tolist()) == (own, pooled)
    assert hits.ensemble.tolist() == [pooled[0], voted, pooled[-1]]


@given(drawn=CASES)
def test_a_shared_head_scores_like_the_same_head_given_to_everybody(drawn):
    rows, label, owner, heads = case(drawn)
    same = np.repeat(heads[:1], len(heads), axis=0)
    shared = score_shared(rows, label, owner, heads[0].astype(float), len(heads))
    check_equal(shared, scored(rows, label, owner, same))


def check_equal(one, other):
    for name in ("own", "pooled", "ensemble"):
        assert np.array_equal(getattr(one, name), getattr(other, name))


@given(drawn=CASES, cut=st.integers(0, 30))
def test_hits_of_disjoint_samples_add(drawn, cut):
    rows, label, owner, heads = case(drawn)
    total = Hits.zero(len(heads))
    for part in (slice(cut), slice(cut, None)):
        total += scored(rows[part], label[part], owner[part], heads)
    check_equal(total, scored(rows, label, owner, heads))


def test_the_unit_of_the_features_does_not_matter():
    rng = np.random.default_rng(0)
    rows = rng.integers(-9000, 9000, (200, 16)).astype(np.int16)
    heads = rng.standard_normal((3, 16, 10)).astype(np.float32)
    label, owner = rng.integers(10, size=200), rng.integers(3, size=200)
    whole, scaled = (scored(unit, label, owner, heads) for unit in (rows, rows * 2.0**-9))
    check_equal(whole, scaled)
