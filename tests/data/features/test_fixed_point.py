"""Fixed point: nearest multiple, exact way back, symmetric clipping, named bad values."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pfl.data.features.fixed_point import (
    LIMIT,
    STEPS,
    UNDERFLOW,
    dequantize,
    quantize,
    range_for,
    step_for,
    underflows,
)
from pfl.errors import InputError

ranges = st.floats(LIMIT * STEPS[0], LIMIT * STEPS[1])
steps = st.integers(-20, 5).map(lambda k: 2.0**k)
floats = st.floats(-1e6, 1e6, width=32)
matrices = arrays(np.float32, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=floats)


@given(ranges)
@example(32767.0)
@example(32768.0)
@example(6.0)
def test_step_is_the_smallest_power_of_two_that_holds_the_range(largest):
    step = step_for(largest)
    assert math.frexp(step)[0] == 0.5
    assert float(np.float32(step)) * float(np.float32(1 / step)) == 1
    assert STEPS[0] <= step <= STEPS[1]
    assert LIMIT * step >= largest > LIMIT * step / 2


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, 1e300, 1e-40, 5e-324])
def test_no_step_for_no_sensible_range(bad):
    with pytest.raises(InputError, match=r"between .* set extract\.feature-range"):
        step_for(bad)


@given(st.floats(0, 3e38))
def test_the_advised_range_is_taken_and_holds_all_features_that_one_can_hold(largest):
    step = step_for(float(range_for(largest)))
    assert LIMIT * step >= min(largest, LIMIT * STEPS[1] / 2)
    assert not underflows(largest, step) or largest < UNDERFLOW * STEPS[0] * 2


@pytest.mark.parametrize(("largest", "told"), [(0.0, False), (127.0, True), (128.0, False)])
def test_features_of_few_steps_underflow(largest, told):
    assert underflows(largest / 4, 0.25) is told


@given(matrices, steps)
def test_rounding_is_to_nearest_and_the_rest_is_counted(features, step):
    result = quantize(features, step)
    exact = features.astype(np.float64) / step
    inside = np.abs(np.rint(exact)) <= LIMIT
    assert result.values.dtype == np.int16
    np.testing.assert_array_equal(result.values[inside], np.rint(exact)[inside])
    np.testing.assert_array_equal(result.values[~inside], LIMIT * np.sign(exact[~inside]))
    assert result.saturated == np.count_nonzero(~inside)
    assert result.largest == np.abs(features).max()


@given(matrices, steps)
def test_a_range_that_holds_all_values_never_saturates(features, step):
    largest = max(float(np.abs(features).max()), 1e-6)
    assert quantize(features, step_for(largest)).saturated == 0


@given(arrays(np.int16, (3, 4), elements=st.integers(-LIMIT, LIMIT)), steps)
def test_there_and_back_is_the_identity(values, step):
    features = dequantize(values, step)
    np.testing.assert_array_equal(features / step, values)
    np.testing.assert_array_equal(quantize(features.astype(np.float32), step).values, values)


def test_huge_features_are_clipped_not_wrapped():
    result = quantize(np.array([[3e38, -3e38]], np.float32), 2.0**-12)
    assert result.values.tolist() == [[LIMIT, -LIMIT]]
    assert result.saturated == 2


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_values_name_their_row(bad):
    features = np.zeros((4, 3), np.float32)
    features[2, 1] = bad
    with pytest.raises(InputError, match="features for sample 12 "):
        quantize(features, 0.5, lambda row: f"sample {10 + row}")
