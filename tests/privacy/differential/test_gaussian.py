import numpy as np
import pytest
from autodp.mechanism_zoo import ExactGaussianMechanism
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from pfl.privacy.differential.gaussian import (
    delta_at,
    noise_multiplier,
    normals,
    secret_bytes,
    seeded_bytes,
)

epsilons = st.floats(-3, 2).map(lambda power: 10.0**power)
deltas = st.floats(-9, -0.5).map(lambda power: 10.0**power)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-2])
def test_an_accountant_finds_the_same_epsilon(epsilon, delta):
    """Autodp of Y.-X. Wang, given the noise, accounts for it."""
    found = ExactGaussianMechanism(noise_multiplier(epsilon, delta)).get_approxDP(delta)
    assert found == pytest.approx(epsilon, rel=1e-6)


@given(epsilons, deltas)
def test_the_noise_suffices_and_less_would_not(epsilon, delta):
    ratio = 1 / noise_multiplier(epsilon, delta)
    assert delta_at(epsilon, ratio) <= delta
    assert delta_at(epsilon, 1.001 * ratio) > delta


@given(epsilons, deltas)
def test_delta_is_the_excess_of_one_density_over_the_other(epsilon, delta):
    """By the definition: the integral of max(0, p − e^ε q), p = N(μ, 1), q = N(0, 1)."""
    ratio = 1 / noise_multiplier(epsilon, delta)
    x = np.linspace(-12, 12 + ratio, 200_001)
    density = lambda at: np.exp(-(at**2) / 2) / np.sqrt(2 * np.pi)  # noqa: E731
    with np.errstate(over="ignore"):
        excess = np.maximum(density(x - ratio) - np.exp(epsilon) * density(x), 0)
    assert np.trapezoid(excess, x) == pytest.approx(delta, rel=1e-3)


@pytest.mark.parametrize("source", [secret_bytes, seeded_bytes(3)])
def test_normal_numbers_are_normal(source):
    drawn = normals(20_001, source)
    assert drawn.shape == (20_001,)
    assert np.isfinite(drawn).all()
    assert kstest(drawn, "norm").pvalue > 1e-6


def test_extreme_bytes_give_finite_numbers():
    assert normals(1, lambda count: b"\0" * count)[0] == pytest.approx(-8.2, abs=0.2)
    assert normals(1, lambda count: b"\xff" * count)[0] == pytest.approx(8.2, abs=0.2)


def test_a_seed_is_a_stream_and_a_secret_is_not():
    one, other = seeded_bytes(5), seeded_bytes(5)
    first = one(16)
    assert first == other(16)
    assert one(16) == other(16) != first
    assert seeded_bytes(6)(16) != first
    assert secret_bytes(16) != secret_bytes(16)
    assert len(seeded_bytes(5)(13)) == 13
