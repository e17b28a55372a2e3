"""A client gets a head that says something, whatever its size and the number of classes."""

import numpy as np
import pytest

from pfl.fedhip.families import client_problem
from pfl.fedhip.families.table import Family
from pfl.fedhip.selection.candidates import PersonalizeSettings
from pfl.fedhip.selection.choice import GLOBAL_PRIOR, PERSONALIZED, choose, prepare_choice
from tests.fedhip.problems import Pool

WIDTH = 24


def client(samples, classes, concentration, seed=0):
    """Samples of everybody, of the client, and fresh ones; class means are a distance apart."""
    rng = np.random.default_rng(seed)
    means = 1.2 * rng.normal(size=(classes, WIDTH))
    even = np.full(classes, 1 / classes)
    share = even if concentration is None else rng.dirichlet(np.full(classes, concentration))
    sizes = (samples, max(3000, 8 * classes), 300)
    parts = [rng.choice(classes, n, p=p) for n, p in zip(sizes, (share, even, share), strict=True)]
    mine, others, fresh = ((means[y] + rng.normal(size=(len(y), WIDTH)), y) for y in parts)
    order = np.argsort(mine[1], kind="stable")
    features, labels = np.vstack([mine[0][order], others[0]]), np.append(mine[1][order], others[1])
    return Pool(features, labels, samples, classes), fresh


def log_loss(scores, labels):
    shifted = scores - scores.max(axis=1, keepdims=True)
    own = shifted[np.arange(len(labels)), labels]
    return float(np.mean(np.log(np.exp(shifted).sum(axis=1)) - own))


def scores_of(chosen, kind, features):
    kept = chosen.kept[kind]
    return kept.scale * kept.head.scores(features) + kept.prior * chosen.log_ratio


CASES = [
    *((n, d, c) for n in (1, 2, 30, 400) for d in (2, 100) for c in (None, 0.1)),
    (5000, 2, None), (5000, 100, 0.1), (1, 1000, 0.1), (30, 1000, None), (5000, 1000, 0.1),
]  # fmt: skip


@pytest.mark.parametrize(("samples", "classes", "concentration"), CASES)
def test_it_is_not_the_one_that_says_nothing(samples, classes, concentration, monkeypatch):
    """Fresh samples: better than the prior alone, no worse than G but by chance."""
    monkeypatch.setattr(client_problem, "JUDGED", 40 if classes == 1000 else 200)
    pool, (features, labels) = client(samples, classes, concentration)
    numbers = {"rho": 10.0, "beta": 10.0} if classes == 1000 else {}
    settings = PersonalizeSettings(Family.AUTO, alpha=10.0, **numbers)
    chosen = choose(prepare_choice(pool.server(), settings), *pool.mine)
    found = scores_of(chosen, PERSONALIZED, features)
    shared = scores_of(chosen, GLOBAL_PRIOR, features)
    nothing = np.tile(chosen.log_ratio, (len(labels), 1))
    hits, global_hits, prior_hits = (
        np.mean(z.argmax(axis=1) == labels) for z in (found, shared, nothing)
    )
    assert chosen.kept[PERSONALIZED].scale > 0
    assert hits >= global_hits - 0.06
    assert hits > prior_hits or prior_hits > 0.98
    assert log_loss(found, labels) < log_loss(nothing, labels) + 0.02
