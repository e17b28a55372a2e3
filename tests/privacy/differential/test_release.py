import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from pfl.data.client_features.clipping import clip
from pfl.errors import InputError
from pfl.fedhip.closed_form import aggregate as solve
from pfl.fedhip.membership import solve_sums
from pfl.fedhip.moments import moments
from pfl.fedhip.server import read_server, read_sums, write_server
from pfl.fedhip.uploads import create_uploads
from pfl.privacy.differential.gaussian import seeded_bytes
from pfl.privacy.differential.release import WEIGHT, Privacy, release
from pfl.ridge.linalg import unpack
from stages.aggregate import aggregate

CLASSES = 3


def some_moments(n, m, norm, seed=0, extra=False):
    """Sums of n clipped samples, the last of which is left out unless ``extra``."""
    rng = np.random.default_rng(seed)
    made = clip(m, 2.0**-8, norm)
    rows, _ = made(rng.integers(-3000, 3001, (n, m)).astype(np.int16))
    labels = rng.integers(CLASSES, size=n)
    kept = np.arange(n if extra else n - 1)
    order = kept[np.argsort(labels[kept], kind="stable")]
    return moments(rows[order], labels[order], CLASSES, made.step)


@given(
    n=st.integers(1, 12),
    m=st.integers(1, 9),
    norm=st.sampled_from([0.01, 1.0, 7.5, 1e4]),
    seed=st.integers(0, 2**32 - 1),
)
def test_one_sample_moves_the_sums_no_further_than_stated(n, m, norm, seed):
    """The vector of the module's notes, of two neighbouring data sets."""

    def vector(total):
        gram = total.gram_matrix()
        least = np.linalg.eigvalsh(gram)[0]
        return gram, total.cross_matrix(), total.count, least

    near, far = (vector(some_moments(n, m, norm, seed, extra)) for extra in (False, True))
    gram, cross, count, least = (b - a for a, b in zip(near, far, strict=True))
    parts = [gram / norm**2, cross / norm, WEIGHT * count, WEIGHT * least / norm**2]
    lengths = [np.linalg.norm(np.atleast_1d(part)) for part in parts]
    for length, most in zip(lengths, [1, 1, WEIGHT, WEIGHT], strict=True):
        assert length <= most * (1 + 1e-9)
    assert np.linalg.norm(lengths) <= math.sqrt(2 + 2 * WEIGHT**2) * (1 + 1e-9)
    upper = np.triu(gram, 1)
    as_vector = np.linalg.norm(np.concatenate([np.diag(gram), math.sqrt(2) * upper.ravel()]))
    assert as_vector == pytest.approx(np.linalg.norm(gram))


def test_every_part_has_its_noise():
    m, norm, draws = 30, 2.0, 40
    total, privacy = some_moments(50, m, norm), Privacy(1.0, 1e-5, norm)
    source, sigma = seeded_bytes(1), privacy.noise
    diagonal, beside, cross, count = [], [], [], []
    for _ in range(draws):
        sums = release(total, privacy, source).sums
        gram = sums.gram_matrix() - total.gram_matrix()
        np.testing.assert_array_equal(gram, gram.T)
        beside.append(gram[np.triu_indices(m, 1)] / norm**2 * math.sqrt(2))
        diagonal.append(np.diff(np.diag(gram)) / norm**2 / math.sqrt(2))  # without the repair
        cross.append((sums.cross - total.cross) * total.step / norm)
        count.append((sums.count - total.count)[total.count > 0] * WEIGHT)
    assert kstest(np.ravel(beside), "norm", (0, sigma)).pvalue > 1e-4
    assert np.std(diagonal) == pytest.approx(sigma, rel=0.1)
    assert kstest(np.ravel(cross), "norm", (0, sigma)).pvalue > 1e-4
    assert np.abs(np.corrcoef(np.array(beside)[:, :4].T)[0, 1:]).max() < 0.7


def test_counts_have_noise_and_are_never_negative():
    total, privacy = some_moments(4, 2, 1.0), Privacy(1.0, 1e-5, 1.0)
    source = seeded_bytes(2)
    found = np.array([release(total, privacy, source).sums.count for _ in range(300)])
    assert (found >= 0).all()
    assert (found == 0).any()
    above = found[found > 0] - total.count.mean()
    assert np.sqrt(np.mean(above**2)) == pytest.approx(privacy.noise / WEIGHT, rel=0.15)


@settings(max_examples=30)
@given(
    m=st.integers(1, 40),
    epsilon=st.floats(-2, 3).map(lambda power: 10.0**power),
    norm=st.sampled_from([0.01, 1.0, 50.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_noisy_sums_can_be_solved(m, epsilon, norm, seed):
    total, privacy = some_moments(20, m, norm, seed), Privacy(epsilon, 1e-5, norm)
    released = release(total, privacy, seeded_bytes(seed))
    values = np.linalg.eigvalsh(unpack(released.sums.gram, m))
    assert values[0] >= -1e-9 * max(values[-1], 1.0)
    assert released.beta >= privacy.noise * norm**2
    assert np.isfinite(solve(released.sums, released.beta).head).all()


def test_the_ridge_outweighs_the_noise_nearly_always():
    """No direction of the noisy system is weaker than half the true one."""
    m, privacy, source = 60, Privacy(1.0, 1e-5, 1.0), seeded_bytes(7)
    total, held = some_moments(3000, m, 1.0), 0
    for _ in range(40):
        released = release(total, privacy, source)
        noisy = released.sums.gram_matrix() + released.beta * np.eye(m)
        raised = np.trace(noisy - total.gram_matrix()) / m  # the whole ridge, but for noise / √m
        true = total.gram_matrix() + raised * np.eye(m)
        held += np.linalg.eigvalsh(noisy - true / 2)[0] >= 0
    assert held >= 36


def test_much_epsilon_leaves_the_sums_nearly_alone():
    total = some_moments(200, 5, 1.0)
    released = release(total, Privacy(1e8, 0.1, 1.0), seeded_bytes(0))
    np.testing.assert_allclose(released.sums.gram_matrix(), total.gram_matrix(), atol=0.1)
    assert np.abs(released.sums.count - total.count).max() <= 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"epsilon": 0.0}, r"privacy\.epsilon is 0: set it above 0, or to none"),
        ({"epsilon": -1.0}, "epsilon is -1"),
        ({"epsilon": math.inf}, "epsilon is inf"),
        ({"delta": 0.0}, r"privacy\.delta is 0: set it below 1"),
        ({"delta": 1.0}, "delta is 1"),
        ({"delta": math.nan}, "delta is nan"),
        ({"norm": 0.0}, r"set features\.norm to a number"),
    ],
)
def test_promises_that_cannot_be_made_are_refused(wrong, words):
    with pytest.raises(InputError, match=words):
        Privacy(**({"epsilon": 1.0, "delta": 1e-5, "norm": 1.0} | wrong))


def test_noise_beyond_64_bits_is_refused():
    with pytest.raises(InputError, match="set it higher"):
        release(some_moments(5, 3, 1.0), Privacy(1e-11, 1e-12, 1.0), seeded_bytes(0))


@pytest.fixture
def uploads(tmp_path):
    path, sent = tmp_path / "uploads.h5", some_moments(60, 4, 1.0)
    with create_uploads(path, 1, 4, CLASSES, sent.step, view={"feature-norm": 1.0}) as file:
        file.add(0, sent)
    return path, sent


def made_private(path, folder, seed, beta="auto", epsilon="1.0"):
    """What the stage makes of uploads."""
    out, members, upload = folder / "s.h5", folder / "m.h5", folder / "upload.json"
    aggregate(path, out, members, upload, beta, [], False, "auto", epsilon, 1e-5, seed)
    return out.read_bytes()


def test_without_privacy_the_sums_are_exact(uploads, tmp_path):
    path, sent = uploads
    made = made_private(path, tmp_path, "secret", epsilon="none")
    assert read_server(tmp_path / "s.h5")[0] == sent
    write_server(tmp_path / "plain.h5", sent, solve_sums(sent, None), automatic=True)
    assert (tmp_path / "plain.h5").read_bytes() == made


def test_a_seed_gives_equal_bytes_and_secret_noise_does_not(uploads, tmp_path, caplog):
    path, sent = uploads
    made = [made_private(path, tmp_path, seed) for seed in ("5", "secret", "secret")]
    assert "protects nobody" in caplog.text
    made += [made_private(path, tmp_path, "4"), made_private(path, tmp_path, "4")]
    assert made[-1] == made[-2]
    assert len(set(made)) == 4
    total, knowledge = read_server(tmp_path / "s.h5")
    released = release(sent, Privacy(1.0, 1e-5, 1.0), seeded_bytes(4))
    assert (total, knowledge.beta) == (released.sums, released.beta)
    made_private(path, tmp_path, "4", beta="123.0")
    assert read_server(tmp_path / "s.h5")[1].beta == 123.0


def test_private_sums_are_not_changed_by_a_client(uploads, tmp_path):
    """The same noise with and without a client would give the client away."""
    made_private(uploads[0], tmp_path, "secret")
    with pytest.raises(InputError, match=r"are private.*aggregate\.leave-out"):
        read_sums(tmp_path / "s.h5")


def test_the_largest_noise_that_is_taken_fits_64_bits_with_its_ridge():
    """Raising a noisy matrix until positive semidefinite takes √m times the noise of an entry."""
    refused = []
    for power in np.arange(-4.0, -9.0, -0.25):
        total = some_moments(5, 100, 1.0)
        try:
            released = release(total, Privacy(10.0**power, 1e-12, 1.0), seeded_bytes(0))
        except InputError:
            refused.append(power)
            continue
        values = np.linalg.eigvalsh(unpack(released.sums.gram, 100))
        assert values[0] >= -1e-12 * values[-1]
        assert not refused
    assert 0 < len(refused) < 20
