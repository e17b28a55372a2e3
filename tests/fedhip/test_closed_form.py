"""FedHiP's lemma and theorems, as laws over random federations."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pfl.errors import InputError
from pfl.fedhip.closed_form import aggregate, one_hot
from pfl.fedhip.families import equation_14
from pfl.fedhip.families.equation_14 import _refit_head, _update_head, personalized_head
from pfl.fedhip.families.local_head import local_head
from pfl.fedhip.moments import Moments, moments
from pfl.fedhip.paper_recursion import PaperUpload, paper_upload, recursive_global_head
from tests import oracles
from tests.strategies import federations

betas = st.sampled_from([1e-3, 1.0, 1e3])
alphas = st.sampled_from([0.1, 1.0, 30.0, 1e3])


def total(federation):
    parts = (
        moments(*federation.of(k), federation.classes, federation.step)
        for k in range(federation.clients)
    )
    return sum(parts, Moments.zero(federation.rows.shape[1], federation.classes, federation.step))


def own(federation, client):
    rows, labels = federation.of(client)
    return rows * federation.step, labels


def close(actual, expected, federation, beta):
    """Equal up to the condition of the largest system: ‖F‖²(1 + α)/β at most 1e3·‖F‖²/β."""
    scale = 1.0 + np.abs(expected).max()
    condition = 1.0 + np.linalg.norm(federation.features) ** 2 * 1e3 / beta
    np.testing.assert_allclose(actual, expected, rtol=0, atol=scale * min(1e-2, 1e-14 * condition))


@given(federations(), betas)
def test_local_head_is_ridge_on_the_clients_own_samples(federation, beta):
    for k in range(federation.clients):
        features, labels = own(federation, k)
        head = local_head(features, labels, federation.classes, beta)
        expected = oracles.ridge(features, labels, federation.classes, beta)
        close(head, expected, federation, beta)


@given(federations(), betas)
def test_theorem_1_the_global_head_is_ridge_on_all_samples(federation, beta):
    head = aggregate(total(federation), beta).head
    expected = oracles.ridge(federation.features, federation.labels, federation.classes, beta)
    close(head, expected, federation, beta)


@given(federations(), betas)
def test_lemma_1_the_recursion_telescopes(federation, beta):
    """S_K M_K = Σ F_kᵀY_k, so the recursion (9)-(12) and the sum give one head."""
    uploads = [
        paper_upload(moments(*federation.of(k), federation.classes, federation.step), beta)
        for k in range(federation.clients)
    ]
    recursive = recursive_global_head(uploads, beta)
    close(recursive, aggregate(total(federation), beta).head, federation, beta)


@given(federations(), betas, alphas)
def test_theorem_2_the_personalized_head_minimizes_objective_1(federation, beta, alpha):
    knowledge = aggregate(total(federation), beta)
    everybody = (federation.features, federation.labels)
    for k in range(federation.clients):
        features, labels = own(federation, k)
        head = personalized_head(knowledge, features, labels, alpha)
        parts = [(*everybody, 1.0), (features, labels, alpha)]
        close(head, oracles.weighted_ridge(parts, federation.classes, beta), federation, beta)


@given(federations(max_samples=15), alphas, st.integers(0, 2**32 - 1))
def test_theorem_2_the_gradient_of_objective_1_is_zero(federation, alpha, seed):
    """Central differences of a quadratic are exact: every direction is flat at P_k."""
    knowledge = aggregate(total(federation), 1.0)
    everybody, mine = (federation.features, federation.labels), own(federation, 0)
    head = personalized_head(knowledge, *mine, alpha)
    direction = np.random.default_rng(seed).normal(size=head.shape)

    def loss(step):
        return oracles.objective(
            head + step * direction, everybody, mine, federation.classes, alpha, 1.0
        )

    curvature = loss(1.0) + loss(-1.0) - 2 * loss(0.0)
    assert curvature > 0
    assert abs(loss(1.0) - loss(-1.0)) <= 1e-7 * curvature


@given(federations(max_clients=5), betas, alphas, st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_theorem_3_bit_for_bit(federation, beta, alpha, others, seed):
    """Client 0 stays; everybody else's samples are dealt anew, to another number of clients."""
    dealt = federation.dealt_anew(others, np.random.default_rng(seed))
    mine = own(federation, 0)
    before, after = total(federation), total(dealt)
    np.testing.assert_array_equal(before.gram, after.gram)
    np.testing.assert_array_equal(before.cross, after.cross)
    one, two = aggregate(before, beta), aggregate(after, beta)
    np.testing.assert_array_equal(one.head, two.head)
    np.testing.assert_array_equal(
        personalized_head(one, *mine, alpha), personalized_head(two, *mine, alpha)
    )


@given(federations(max_samples=60), betas, alphas)
def test_both_routes_to_the_personalized_head_agree(federation, beta, alpha):
    knowledge = aggregate(total(federation), beta)
    features, labels = own(federation, 0)
    assume(len(features) > 0)
    targets = one_hot(labels, federation.classes)
    refit = _refit_head(knowledge, features, targets, alpha)
    close(_update_head(knowledge, features, targets, alpha), refit, federation, beta)


@pytest.mark.parametrize(
    ("samples", "width", "route"),
    [(3, 12, "_update_head"), (12, 12, "_refit_head"), (40, 12, "_refit_head")],
)
def test_the_cheaper_route_is_taken(samples, width, route, monkeypatch):
    taken = []

    def spy(name):
        original = getattr(equation_14, name)

        def call(*arguments):
            taken.append(name)
            return original(*arguments)

        monkeypatch.setattr(equation_14, name, call)

    spy("_refit_head")
    spy("_update_head")
    rng = np.random.default_rng(0)
    knowledge = aggregate(Moments.zero(width, 2, 1.0), 1.0)
    rows, labels = rng.normal(size=(samples, width)), rng.integers(0, 2, samples)
    personalized_head(knowledge, rows, labels, 1.0)
    assert taken == [route]


@given(federations(), betas)
def test_alpha_zero_and_no_samples_give_the_global_head(federation, beta):
    knowledge = aggregate(total(federation), beta)
    features, labels = own(federation, 0)
    for head in (
        personalized_head(knowledge, features, labels, 0.0),
        personalized_head(knowledge, features[:0], labels[:0], 5.0),
    ):
        np.testing.assert_array_equal(head, knowledge.head)


@given(federations(max_samples=60, max_width=3, max_clients=2), betas)
def test_a_large_alpha_gives_least_squares_on_the_own_samples(federation, beta):
    """Everything but the own samples weighs (‖F‖² + β)/(α λ_min) beside them."""
    features, labels = own(federation, 0)
    assume(len(features) > 8 and np.linalg.cond(features) < 50)
    rest = np.linalg.norm(federation.features) ** 2 + beta
    alpha = 1e5 * rest / np.linalg.eigvalsh(features.T @ features)[0]
    head = personalized_head(aggregate(total(federation), beta), features, labels, alpha)
    expected = np.linalg.lstsq(features, one_hot(labels, federation.classes), rcond=None)[0]
    np.testing.assert_allclose(head, expected, atol=1e-2 * (1 + np.abs(expected).max()))


@given(federations())
def test_one_hot_matches_the_identity(federation):
    np.testing.assert_array_equal(
        one_hot(federation.labels, federation.classes),
        oracles.one_hot(federation.labels, federation.classes),
    )


def test_a_ridge_that_the_recursion_loses_is_a_sentence():
    """Each client alone keeps it; added up, one column outweighs it."""
    uploads = [PaperUpload(np.diag([1e9, 2e-4]), np.ones((2, 1)))] * 20
    with pytest.raises(InputError, match="lost in float64 in the recursion: set beta higher"):
        recursive_global_head(uploads, 2e-4)


@pytest.mark.parametrize("samples", [3, 40])
@pytest.mark.parametrize("alpha", [1e20, 1e300, 1.7e308])
@pytest.mark.parametrize("twins", [False, True])
def test_a_huge_alpha_is_right_or_named(samples, alpha, twins):
    """Least squares on the own samples, or a sentence that tells to lower alpha."""
    rng = np.random.default_rng(0)
    rows = rng.integers(-99, 99, (samples, 12)).astype(np.int16)
    if twins:
        rows[:, 1] = rows[:, 0]
    labels = np.sort(rng.integers(0, 2, samples))
    knowledge = aggregate(moments(rows, labels, 2, 0.5), 1.0)
    try:
        head = personalized_head(knowledge, rows * 0.5, labels, alpha)
    except InputError as error:
        assert "set alpha lower" in str(error)
        assert twins or alpha > 1e300
        return
    fitted = np.linalg.lstsq(rows * 0.5, one_hot(labels, 2), rcond=None)[0]
    np.testing.assert_allclose(rows * 0.5 @ head, rows * 0.5 @ fitted, atol=1e-2)
