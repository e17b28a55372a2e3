from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import pfl.data.client_features.clipping
from pfl.data.client_features.clipping import clip
from pfl.errors import InputError
from tests.data.client_features.test_random_projection import some_rows


def length2(row, step):
    return sum(int(q) ** 2 for q in row) * Fraction(step) ** 2


@example(m=1, limit=40, exponent=1, norm=40.0, seed=1)  # a row as long as the norm itself
@given(
    m=st.integers(1, 30),
    limit=st.sampled_from([1, 40, 32767]),
    exponent=st.integers(-20, 5),
    norm=st.floats(1e-8, 1e8),
    seed=st.integers(0, 99),
)
def test_no_row_is_longer_than_the_norm_exactly(m, limit, exponent, norm, seed):
    rows, step = some_rows(10, m, limit, seed), 2.0**exponent
    made = clip(m, step, norm)
    clipped, shortened = made(rows)
    bound = Fraction(norm) ** 2
    assert all(length2(row, made.step) <= bound for row in clipped)
    long = [length2(row, step) > bound for row in rows]
    assert shortened == sum(long)
    for before, after, too_long in zip(rows * step, clipped * made.step, long, strict=True):
        if not too_long:
            np.testing.assert_array_equal(before, after)
        else:
            error = before * (norm / np.linalg.norm(before)) - after
            assert np.abs(error).max() <= 1.001 * made.step
            assert (before * after >= 0).all()


@given(norm=st.floats(1e-6, 1e6), exponent=st.integers(-20, 5))
def test_the_step_is_the_finest_that_holds_the_norm(norm, exponent):
    step = 2.0**exponent
    made = clip(3, step, norm)
    assert made.step == step * 2.0**-made.finer <= step
    assert made.step == step or norm <= 32767 * made.step
    assert norm > 32767 * made.step / 2


@given(block=st.integers(1, 60))
def test_blocks_change_no_byte(block):
    rows, made = some_rows(50, 20, 32767), clip(20, 0.5, 40_000.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pfl.data.client_features.clipping, "BLOCK_ROWS", block)
        blocked = made(rows)
    whole = made(rows)
    assert 0 < whole[1] < 50
    assert blocked[1] == whole[1]
    assert blocked[0].tobytes() == whole[0].tobytes()


def test_a_norm_that_fixed_point_cannot_hold_is_refused():
    with pytest.raises(InputError, match=r"set features\.norm to 1\.8e-15 or more"):
        clip(3, 1.0, 1e-16)
